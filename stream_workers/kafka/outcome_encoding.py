"""Outcomes to Kafka records. Pure, and on the hot path: what records share is encoded once per version."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from schemas.headers import count_forwarded_bytes, encode_dead_letter_headers, encode_result_headers
from schemas.records import ErrorDetail, Stage, Timings
from schemas.settings import Settings
from schemas.version_cuts import VersionCut, encode_cut
from stream_workers.batching.work import Answer, Expired, Rejected, ServedVersion, Superseded, WorkItem

CONTROL_PARTITION = 0
"""The control topic has one partition, so that its records have one order."""


class OutRecord(NamedTuple):
    """One record to be written. `partition` is -1 where the key chooses it."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


class OutcomeEncoder:
    """Writes results and dead letters of one worker in the wire contract.

    A result goes to the partition of its request's number where the result topic has as many, so the order of a request
    partition is the order of its results, whatever partitioner the publisher used.
    """

    def __init__(
        self,
        settings: Settings,
        worker: str,
        partition_counts: Mapping[str, int],
        precision_of: Callable[[str], str],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`precision_of` knows what a version computes in, or returns an empty text; it is asked once for each."""
        self._topics = settings.topics
        self._limits = settings.limits
        self._group = settings.worker.group
        self._worker = worker
        self._counts = partition_counts
        self._precision_of = precision_of
        self._wall_clock = wall_clock
        self._shared_headers: dict[ServedVersion, list[tuple[str, str | bytes | None]]] = {}
        self._results = settings.topics.results
        self._result_partitions = partition_counts.get(settings.topics.results, 0)
        self._timings: Timings | None = None
        self._source: tuple[str, int] | None = None
        self._middle = self._tail = b""

    def encode(self, item: WorkItem | VersionCut) -> OutRecord | None:
        """Make the record that answers `item`, or records a cut; None when nothing does (a tombstone)."""
        if isinstance(item, VersionCut):
            return self._cut(item)
        outcome = item.outcome
        if type(outcome) is Answer:
            if len(outcome.output) <= self._limits.result_bytes:
                return self._result(item, b'"ok"', outcome.output, outcome.version, outcome.timings)
            return self._dead_letter(item, self._too_large(outcome))
        if type(outcome) is Rejected:
            return self._dead_letter(item, outcome)
        if type(outcome) is Expired or type(outcome) is Superseded:
            status = b'"expired"' if type(outcome) is Expired else b'"superseded"'
            return self._result(item, status, b"null", outcome.version, outcome.timings)
        return None

    def _cut(self, cut: VersionCut) -> OutRecord:
        key, value = encode_cut(cut)
        return OutRecord(self._topics.control, CONTROL_PARTITION, key, value, [])

    def _result(
        self, item: WorkItem, status: bytes, output: bytes, version: ServedVersion, timings: Timings
    ) -> OutRecord:
        request = item.request
        if timings is not self._timings:
            # Records of a batch share one object, so this is paid once for many of them.
            self._timings, self._tail = timings, b',"timings":%b}' % msgspec.json.encode(timings)
        topic_partition = (request.topic, request.partition)
        if topic_partition != self._source:
            self._source, self._middle = topic_partition, self._encode_source(*topic_partition)
        source = (self._middle, request.offset, request.timestamp_ms)
        value = b'{"status":%b,"output":%b%b%d},"source_timestamp_ms":%d%b' % (status, output, *source, self._tail)
        shared = self._shared_headers.get(version) or self._share_headers(version)
        headers = [*shared, ("ce_id", request.id.encode())]
        if request.traceparent:
            headers.append(("traceparent", request.traceparent.encode()))
        partition = request.partition if request.partition < self._result_partitions else -1
        return OutRecord(self._results, partition, request.key, value, headers)

    def _share_headers(self, version: ServedVersion) -> list[tuple[str, str | bytes | None]]:
        precision = self._precision_of(version.version)
        headers = encode_result_headers(version.model, version.version, version.epoch, precision)
        if precision:
            # Without it the version is not loaded here yet, and these are no answers of a model.
            self._shared_headers[version] = headers
        return headers

    @staticmethod
    def _encode_source(topic: str, partition: int) -> bytes:
        return b',"source":{"topic":%b,"partition":%d,"offset":' % (msgspec.json.encode(topic), partition)

    def _dead_letter(self, item: WorkItem, rejected: Rejected) -> OutRecord:
        request = item.request
        size = len(request.payload or b"") + len(request.key or b"") + count_forwarded_bytes(request.headers)
        omitted = size > self._limits.result_bytes
        if omitted:
            # The source position is the pointer to what is left out; a dead letter itself always fits.
            bare = msgspec.structs.replace(request, headers=())
        headers: list[tuple[str, str | bytes | None]] = [
            *encode_dead_letter_headers(
                bare if omitted else request,
                rejected.error,
                group=self._group,
                worker=self._worker,
                model=rejected.version.model,
                version=rejected.version.version,
                epoch=rejected.version.epoch,
                precision=self._precision_of(rejected.version.version),
                time_ms=int(self._wall_clock() * 1000),
                payload_omitted=omitted,
            )
        ]
        key = request.key if len(request.key or b"") <= self._limits.key_bytes else None
        topic = self._topics.dead_letters
        payload = b"" if omitted else request.payload
        return OutRecord(topic, self._partition(topic, item), key, payload, headers)

    def _partition(self, topic: str, item: WorkItem) -> int:
        return item.request.partition if item.request.partition < self._counts.get(topic, 0) else -1

    def _too_large(self, answer: Answer) -> Rejected:
        message = (
            f"the model's answer has {len(answer.output)} bytes; limits.result_bytes allows {self._limits.result_bytes}"
        )
        error = ErrorDetail(stage=Stage.EMIT, code="invalid_output", error_class="InvalidOutputError", message=message)
        return Rejected(error, answer.version)
