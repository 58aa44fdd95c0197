"""The active versions in a dict: what the Redis door promises, without Redis."""

from collections.abc import Callable

from model_store.timeline import Timeline
from model_store.timeline_codec import decode_timeline, encode_timeline
from schemas.errors import InvalidPointerError
from schemas.names import check_name


class FakeLiveVersions:
    """Passes the same tests as :class:`model_store.live_versions.LiveVersions`. `values` holds the stored bytes."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.hints_sent = 0

    def read(self, model: str) -> Timeline | None:
        stored = self.values.get(check_name("model name", model))
        return None if stored is None else decode_timeline(stored)

    def move(self, model: str, change: Callable[[Timeline], Timeline], *, replace: bool = False) -> Timeline:
        try:
            current = self.read(model) or Timeline()
        except InvalidPointerError:
            if not replace:
                raise
            current = Timeline()
        moved = change(current)
        self.values[model] = encode_timeline(moved)
        self.hints_sent += 1
        return moved

    def activate(
        self, model: str, version: str, expected_epoch: int | None, now_ms: int, floor_epoch: int = 0
    ) -> Timeline:
        def change(present: Timeline) -> Timeline:
            expected = present.epoch if expected_epoch is None else expected_epoch
            return present.with_activation(version, expected, now_ms, floor_epoch)

        return self.move(model, change, replace=expected_epoch is None)

    def put(self, model: str, value: bytes) -> None:
        self.values[model] = value

    def close(self) -> None:
        pass
