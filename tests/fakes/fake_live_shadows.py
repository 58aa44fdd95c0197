"""Shadows in a dict: what the Redis door promises, without Redis."""

from model_store.shadow import Shadow, decode_shadow, encode_shadow, replace_shadow
from schemas.errors import InvalidPointerError
from schemas.names import check_name
from tests.fakes.fake_live_versions import FakeLiveVersions


class FakeLiveShadows:
    """Passes the same tests as :class:`model_store.live_shadows.LiveShadows`. `values` holds the stored bytes."""

    def __init__(self, versions: FakeLiveVersions) -> None:
        self.values: dict[str, bytes] = {}
        self._versions = versions

    def read(self, model: str) -> Shadow | None:
        stored = self.values.get(check_name("model name", model))
        return None if stored is None else decode_shadow(stored)

    def start(self, model: str, shadow: Shadow) -> Shadow | None:
        try:
            present = self.read(model)
        except InvalidPointerError:
            present = None
        self.values[model] = encode_shadow(replace_shadow(present, shadow, self._versions.read(model), model))
        return present

    def stop(self, model: str) -> bool:
        return self.values.pop(check_name("model name", model), None) is not None

    def put(self, model: str, value: bytes) -> None:
        self.values[model] = value

    def close(self) -> None:
        pass
