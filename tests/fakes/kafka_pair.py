"""A writer and an outcome source that know each other, in memory: what is written is answered at the next poll."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Unpack

import msgspec

from producers.outcomes import Outcome
from producers.request_attributes import Attributes, Delivery
from schemas.errors import PipelineError
from schemas.records import DeadLetter, ErrorDetail, Position, Result, Stage, Status, Timings


def result(request_id: str, **changes: Any) -> Result:
    """Build an ok result."""
    values: dict[str, Any] = {
        "request_id": request_id,
        "key": None,
        "status": Status.OK,
        "output": msgspec.Raw(b"1"),
        "source": Position("requests", 0, 0),
        "timings": Timings(queue_ms=1.0, model_ms=2.0, batch_size=1),
        "model": "echo",
        "version": "v1",
        "epoch": 1,
        "traceparent": "",
        "position": Position("results", 0, 0),
    }
    return Result(**(values | changes))


def dead_letter(request_id: str, **changes: Any) -> DeadLetter:
    """Build a dead letter."""
    values: dict[str, Any] = {
        "key": b"key",
        "payload": b"payload",
        "headers": (("ce_id", request_id.encode()),),
        "request_id": request_id,
        "source": Position("requests", 0, 0),
        "source_timestamp_ms": 1,
        "error": ErrorDetail(stage=Stage.MODEL, code="model_failure", error_class="ValueError", message="no"),
        "group": "g",
        "worker": "w-0",
        "model": "echo",
        "version": "v1",
        "epoch": 1,
        "time_ms": 1000,
        "payload_omitted": False,
        "position": Position("dead", 0, 0),
    }
    return DeadLetter(**(values | changes))


@dataclass
class KafkaPair:
    """Answers as `respond` says; None leaves a request without an answer. `fail` may refuse a delivery."""

    respond: Callable[[str], Outcome | None] = result
    fail: Callable[[str], PipelineError | None] = lambda _: None
    published: list[str] = field(default_factory=list)
    pending: list[Outcome] = field(default_factory=list)
    read: int = 0
    on_poll: Callable[[], None] = lambda: None

    def publish(self, payload: bytes, *, content_type: str, **attributes: Unpack[Attributes]) -> str:
        """Take a request and report its delivery at once."""
        del payload, content_type
        request_id = attributes["request_id"] or ""
        error = self.fail(request_id)
        on_delivery = attributes["on_delivery"]
        if on_delivery is not None:
            position = None if error else Position("requests", 0, len(self.published))
            on_delivery(Delivery(request_id, position, error))
        if error is None:
            self.published.append(request_id)
            outcome = self.respond(request_id)
            if outcome is not None:
                self.pending.append(outcome)
        return request_id

    def poll(self, timeout_seconds: float) -> list[Outcome]:
        """Hand out every answer so far."""
        del timeout_seconds
        self.on_poll()
        outcomes, self.pending = self.pending, []
        self.read += len(outcomes)
        return outcomes

    def positions(self) -> dict[tuple[str, int], int]:
        """Count what was handed out."""
        return {("results", 0): self.read}
