"""The recorded cuts of a model's switches, read whole from the control topic."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from producers.outcomes import Record
from producers.record_reader import RecordReader
from schemas.errors import EnvelopeError
from schemas.settings import KafkaSettings
from schemas.version_cuts import VersionCut, decode_cut

Cuts = Mapping[int, Mapping[tuple[str, int], int]]
"""First offset under an epoch, by epoch, then by topic and partition."""

_PROGRESS_SECONDS = 30.0
_log = logging.getLogger(__name__)


class RecordedCuts:
    """Reads with a connection of its own at each call; opens nothing before."""

    def __init__(self, kafka: KafkaSettings, control_topic: str, *, start_timeout_seconds: float = 30.0) -> None:
        self._kafka = kafka
        self._topic = control_topic
        self._start_timeout_seconds = start_timeout_seconds

    def read_cuts(self, model: str) -> Cuts:
        """Return all cuts that are kept. Raises UnavailableError, ConfigurationError when there is no such topic."""
        return collect_cuts(self.list_cuts(), model)

    def list_cuts(self) -> list[VersionCut]:
        """Return every committed cut of every model, in order; a record that is none is logged and passed over."""
        reader = RecordReader(
            self._kafka, [self._topic], start="earliest", start_timeout_seconds=self._start_timeout_seconds
        )
        with reader:
            return decode_cuts(reader.read_until(reader.end_offsets(), timeout_seconds=_PROGRESS_SECONDS))


def decode_cuts(records: Iterable[Record]) -> list[VersionCut]:
    """Read the records of a control topic; one that is no cut is logged and passed over."""
    cuts = []
    for record in records:
        try:
            cuts.append(decode_cut(record.key, record.value))
        except EnvelopeError as error:
            _log.warning("%s: %s", record.position, error)
    return cuts


def collect_cuts(cuts: Iterable[VersionCut], model: str) -> Cuts:
    """Order the cuts of one model. Of several for one epoch and partition the last holds, as for workers."""
    found: defaultdict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    for cut in cuts:
        if cut.model == model:
            found[cut.epoch][cut.topic, cut.partition] = cut.offset
    return dict(found)


def find_contradictions(cuts: Iterable[VersionCut]) -> list[str]:
    """Describe cuts that differ from an earlier one for the same model, epoch and partition."""
    first: dict[tuple[str, int, str, int], int] = {}
    found = []
    for cut in cuts:
        known = first.setdefault((cut.model, cut.epoch, cut.topic, cut.partition), cut.offset)
        if known != cut.offset:
            place = f"{cut.topic}-{cut.partition}"
            found.append(f"{place}: epoch {cut.epoch} of {cut.model} is cut at {cut.offset} and at {known}")
    return found
