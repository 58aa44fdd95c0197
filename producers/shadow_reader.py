"""Comparisons of a shadow version as they lie on the shadow topic, and as they come."""

import logging
import re
from collections.abc import Iterator
from typing import Self

from producers.kafka_connection import Connection
from producers.outcomes import Record
from producers.record_reader import RecordReader
from schemas.errors import ConfigurationError, EnvelopeError
from schemas.settings import KafkaSettings
from schemas.shadow_records import ShadowRecord, decode_shadow_record

_POLL_SECONDS = 0.5
_STALL_SECONDS = 30.0
_LOGGED_FAULTS = 20
_SPAN = re.compile(r"([0-9]{1,6})(s|m|h|d)\Z")
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_log = logging.getLogger(__name__)


class ShadowReader(Connection):
    """A context manager for one thread. What is no comparison is counted in `malformed`; the first 20 are logged."""

    def __init__(self, kafka: KafkaSettings, topic: str, since_ms: int = 0) -> None:
        """Records that were written before `since_ms`, epoch milliseconds, are passed over."""
        self._reader = RecordReader(kafka, [topic], start="earliest")
        self._since_ms = since_ms
        self.malformed = 0

    def start(self) -> Self:
        """Connect; raises like RecordReader.start."""
        self._reader.start()
        return self

    def read(self, *, follow: bool) -> Iterator[ShadowRecord | None]:
        """Yield what is there; with `follow` also what comes, and None whenever there is a moment to show something."""
        for record in self._reader.read_until(self._reader.end_offsets(), timeout_seconds=_STALL_SECONDS):
            yield from self._decode(record)
        while follow:
            for record in self._reader.poll(_POLL_SECONDS):
                yield from self._decode(record)
            yield None

    def _decode(self, record: Record) -> Iterator[ShadowRecord]:
        if record.timestamp_ms < self._since_ms:
            return
        try:
            yield decode_shadow_record(record.key, record.value, record.headers or (), record.position)
        except EnvelopeError as error:
            self.malformed += 1
            if self.malformed <= _LOGGED_FAULTS:
                _log.warning("skipped: %s", error)

    def close(self) -> None:
        """Disconnect."""
        self._reader.close()


def parse_span(text: str) -> int:
    """Return a span like 90s, 10m, 2h or 1d in milliseconds. Raises ConfigurationError."""
    found = _SPAN.match(text)
    if found is None:
        raise ConfigurationError(f"span {text[:40]!r}: a whole number and s, m, h or d, like 90s or 10m")
    return int(found[1]) * _UNIT_MS[found[2]]
