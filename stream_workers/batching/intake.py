"""Turns polled requests into work items: refuses what is over a limit and tells like shapes apart. Pure."""

from collections.abc import Callable, Iterable, Mapping

from schemas.errors import InvalidInputError, InvalidRecordError, PayloadTooLargeError, scrub
from schemas.headers import HEADER_FRAMING_BYTES
from schemas.records import NPY, SAFETENSORS, ErrorDetail, Request, Stage
from schemas.settings import LimitSettings
from stream_workers.batching.costs import Pricing
from stream_workers.batching.work import Rejected, ServedVersion, Skipped, WorkItem

_NPY_PREFIX = 10  # magic, version and a 2-byte header length
_MAX_SHAPE_KEY = 512
_SKIPPED = Skipped()

RECORD_OVERHEAD_BYTES = 512
"""What a queued record costs beside its payload; counted so that a flood of empty records meets the byte budget too."""


def shape_key(content_type: str, payload: bytes) -> bytes | str:
    """Name what a record must share with its batch: the content type, for tensors the header with dtype and shape."""
    if content_type == NPY and len(payload) > _NPY_PREFIX:
        end = _NPY_PREFIX + int.from_bytes(payload[8:10], "little")
        if end <= _MAX_SHAPE_KEY:
            return payload[:end]
    elif content_type == SAFETENSORS and len(payload) > 8:
        end = 8 + int.from_bytes(payload[:8], "little")
        if end <= _MAX_SHAPE_KEY:
            return payload[:end]
    return content_type


def find_fault(request: Request, limits: LimitSettings) -> InvalidRecordError | None:
    """Check a record's sizes; returns the error that refuses it, or None."""
    payload = request.payload
    if payload is not None and len(payload) > limits.payload_bytes:
        return PayloadTooLargeError(
            f"payload: {len(payload)} bytes; limits.payload_bytes allows {limits.payload_bytes}"
        )
    if payload is not None and not payload:
        return InvalidInputError("payload: empty value; a request carries at least one byte (null is a tombstone)")
    if request.key is not None and len(request.key) > limits.key_bytes:
        return PayloadTooLargeError(f"key: {len(request.key)} bytes; limits.key_bytes allows {limits.key_bytes}")
    if request.headers:
        size = HEADER_FRAMING_BYTES * len(request.headers)
        for name, value in request.headers:
            size += len(name) + len(value or b"")
        if size > limits.header_bytes:
            return PayloadTooLargeError(f"headers: {size} bytes; limits.header_bytes allows {limits.header_bytes}")
    return None


def refusal(error: InvalidRecordError, stage: Stage, version: ServedVersion) -> Rejected:
    """Make the outcome of a record that never reached the model."""
    detail = ErrorDetail(stage=stage, code=error.code, error_class=type(error).__name__, message=scrub(str(error)))
    return Rejected(detail, version)


class Intake:
    """Makes work items, by the limits, the lanes and the pricing of one worker."""

    def __init__(
        self, limits: LimitSettings, priorities: Mapping[str, int] | None = None, pricing: Pricing | None = None
    ) -> None:
        """`priorities` by topic; a topic that is not named has 0."""
        self._limits = limits
        self._priorities = priorities or {}
        self._pricing = pricing

    def take_in(
        self,
        requests: Iterable[Request],
        faults: Mapping[int, InvalidRecordError],
        assignments: Mapping[tuple[str, int], int],
        version: ServedVersion,
        now: float,
        version_of: Callable[[Request], ServedVersion] | None = None,
    ) -> list[WorkItem]:
        """Make one work item per polled request, in order. All meet `version`, unless `version_of` says it of each.

        `faults` names, by index, requests whose envelope could not be read. An item that is refused or skipped here has
        its outcome already. Records of partitions without an assignment are left out: they came too late.
        """
        items, limits, priorities = [], self._limits, self._priorities
        for index, request in enumerate(requests):
            assignment = assignments.get((request.topic, request.partition))
            if assignment is None:
                continue
            payload = request.payload
            item = WorkItem(request, assignment, now, request.content_type, RECORD_OVERHEAD_BYTES + len(payload or b""))
            own = item.version = version if version_of is None else version_of(request)
            if priorities:
                item.priority = priorities.get(request.topic, 0)
            error = faults.get(index)
            if error is not None:
                item.outcome = refusal(error, Stage.DECODE, own)
            elif payload is None:
                item.outcome = _SKIPPED
            elif (fault := find_fault(request, limits)) is not None:
                item.outcome = refusal(fault, Stage.VALIDATE, own)
            else:
                shape = item.shape_key = shape_key(request.content_type, payload)
                if self._pricing is not None:
                    self._price(item, self._pricing, payload, shape)
            items.append(item)
        return items

    @staticmethod
    def _price(item: WorkItem, pricing: Pricing, payload: bytes, shape: bytes | str) -> None:
        try:
            item.cost = pricing.price(item.request.content_type, payload)
        except InvalidRecordError as error:
            item.outcome = refusal(error, Stage.VALIDATE, item.version)
            return
        item.shape_key = pricing.tell_apart(shape, item.cost)
