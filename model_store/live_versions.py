"""The Redis door of the pointer: one timeline per model, read within bounds and moved only by compare-and-set.

WATCH and MULTI do the compare-and-set, so scripting can stay switched off. The published hint carries nothing that is
trusted: whoever hears it reads the key.
"""

from collections.abc import Callable
from typing import Any

from model_store.redis_connection import RedisConnection, exclusively, read_bounded, translated
from model_store.timeline import Timeline
from model_store.timeline_codec import MAX_TIMELINE_BYTES, decode_timeline, encode_timeline
from schemas.errors import InvalidPointerError
from schemas.settings import RedisSettings

_OVERTAKEN = "somebody else moved the active version at the same moment"


class LiveVersions:
    """Reads and moves the active versions. Connects on first use; one instance per thread."""

    def __init__(self, settings: RedisSettings) -> None:
        self._connection = RedisConnection(settings)

    def read(self, model: str) -> Timeline | None:
        """Return the model's timeline, None when there is none.

        Raises InvalidPointerError for a value of the wrong type, size or form (never more than the bound is read),
        UnsafeNameError for the name and UnavailableError.
        """
        key = self._key(model)
        with translated():
            return read_timeline(self._connection.client, key)

    def move(self, model: str, change: Callable[[Timeline], Timeline], *, replace: bool = False) -> Timeline:
        """Store what `change` makes of the present timeline, an empty one at first, and hint at it. Returns it.

        `change` is one of the pure methods of :class:`Timeline` and may raise. With `replace` a stored value that is no
        timeline counts as an empty one. Raises PointerConflictError when somebody else moved it in between, and as
        :meth:`read`.
        """
        key = self._key(model)
        with exclusively(_OVERTAKEN), self._connection.client.pipeline() as pipe:
            pipe.watch(key)
            moved = change(_read_or_replace(pipe, key, replace=replace))
            pipe.multi()
            pipe.set(key, encode_timeline(moved))
            pipe.publish(self._connection.hint_channel(model), str(moved.epoch))
            pipe.execute()
        return moved

    def activate(
        self, model: str, version: str, expected_epoch: int | None, now_ms: int, floor_epoch: int = 0
    ) -> Timeline:
        """Make `version` the active one from `now_ms` on, if the epoch still is `expected_epoch` (0 for none yet).

        With None the operator re-asserts: whatever is stored, sound or not, is replaced or followed. `floor_epoch` is
        the highest epoch that any worker is known to hold. Returns and raises as :meth:`move`.
        """

        def change(present: Timeline) -> Timeline:
            expected = present.epoch if expected_epoch is None else expected_epoch
            return present.with_activation(version, expected, now_ms, floor_epoch)

        return self.move(model, change, replace=expected_epoch is None)

    def hints(self, model: str) -> "HintListener":
        """Subscribe to the hints of one model. Raises UnavailableError."""
        with translated():
            listener = self._connection.client.pubsub(ignore_subscribe_messages=True)
            listener.subscribe(self._connection.hint_channel(model))
            return HintListener(listener)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _key(self, model: str) -> str:
        return self._connection.key("timeline", model)


class HintListener:
    """Hears that a pointer or a candidate may have changed. Missing a hint costs a poll interval and nothing else."""

    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a hint; True when one came. Raises UnavailableError."""
        with translated():
            return self._subscription.get_message(timeout=timeout_seconds) is not None

    def close(self) -> None:
        """Stop listening."""
        self._subscription.close()


def read_timeline(client: Any, key: str) -> Timeline | None:
    """Read the timeline under `key`. Raises InvalidPointerError, and whatever the client raises."""
    try:
        value = read_bounded(client, key, MAX_TIMELINE_BYTES)
        return None if value is None else decode_timeline(value)
    except InvalidPointerError as error:
        raise InvalidPointerError(
            f"{key} in Redis: {error}; `headrace models activate --replace` puts it right"
        ) from None


def _read_or_replace(client: Any, key: str, *, replace: bool) -> Timeline:
    try:
        return read_timeline(client, key) or Timeline()
    except InvalidPointerError:
        if replace:
            return Timeline()
        raise
