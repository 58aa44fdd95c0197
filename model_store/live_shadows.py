"""The Redis door of shadows: one per model, read within bounds and set only by compare-and-set."""

from typing import Any

from model_store.live_versions import read_timeline
from model_store.redis_connection import RedisConnection, exclusively, read_bounded, translated
from model_store.shadow import MAX_SHADOW_BYTES, SHADOW_KEY, Shadow, decode_shadow, encode_shadow, replace_shadow
from schemas.errors import InvalidPointerError
from schemas.settings import RedisSettings

_OVERTAKEN = "somebody else changed the shadow, or what is active, at the same moment"


class LiveShadows:
    """Reads and sets shadows. Connects on first use; one instance per thread.

    Every method raises UnavailableError and UnsafeNameError for a model name.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self._connection = RedisConnection(settings)

    def read(self, model: str) -> Shadow | None:
        """Return the shadow of a model, None when there is none. Raises InvalidPointerError."""
        key = self._key(model)
        with translated():
            return _read(self._connection.client, key, model)

    def start(self, model: str, shadow: Shadow) -> Shadow | None:
        """Have every worker run `shadow` beside what answers; returns the one before, of the same version, if any.

        Raises as :func:`model_store.shadow.replace_shadow`, PointerConflictError when it or the timeline was changed in
        between, and InvalidPointerError for a stored timeline that is none.
        """
        key, timeline_key = self._key(model), self._connection.key("timeline", model)
        with exclusively(_OVERTAKEN), self._connection.client.pipeline() as pipe:
            pipe.watch(key, timeline_key)
            present = _read_sound(pipe, key, model)
            wanted = replace_shadow(present, shadow, read_timeline(pipe, timeline_key), model)
            pipe.multi()
            pipe.set(key, encode_shadow(wanted))
            pipe.publish(self._connection.hint_channel(model), SHADOW_KEY)
            pipe.execute()
        return present

    def stop(self, model: str) -> bool:
        """Have no shadow any more, whatever lies there. False when nothing did."""
        key = self._key(model)
        with translated(), self._connection.client.pipeline() as pipe:
            pipe.delete(key)
            pipe.publish(self._connection.hint_channel(model), SHADOW_KEY)
            return bool(pipe.execute()[0])

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _key(self, model: str) -> str:
        return self._connection.key(SHADOW_KEY, model)


def _read(client: Any, key: str, model: str) -> Shadow | None:
    try:
        value = read_bounded(client, key, MAX_SHADOW_BYTES)
        return None if value is None else decode_shadow(value)
    except InvalidPointerError as error:
        raise InvalidPointerError(
            f"{key} in Redis: {error}; `headrace models shadow {model} --stop` takes it away"
        ) from None


def _read_sound(client: Any, key: str, model: str) -> Shadow | None:
    """The shadow there; what is not one does not stand in the way of one."""
    try:
        return _read(client, key, model)
    except InvalidPointerError:
        return None
