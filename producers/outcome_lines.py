"""Outcomes as lines for people and programs. Payloads stay where they are."""

from typing import Any

import msgspec

from producers.outcomes import Outcome
from schemas.errors import one_line
from schemas.records import Position, Result

COLUMNS = (("id", 36), ("status", 9), ("model", 18), ("ms", 7), ("at", 30), ("answer", 60))
"""Names and widths of `outcome_cells`."""


def outcome_line(outcome: Outcome) -> bytes:
    """Spell an outcome as one JSON object."""
    line: dict[str, Any] = {
        "kind": "result" if isinstance(outcome, Result) else "dead_letter",
        "id": outcome.request_id,
        "key": None if outcome.key is None else outcome.key.decode(errors="replace"),
        "model": outcome.model,
        "version": outcome.version,
        "epoch": outcome.epoch,
        "precision": outcome.precision,
        "source": _place(outcome.source),
        "position": _place(outcome.position),
    }
    if isinstance(outcome, Result):
        line |= {"status": outcome.status, "output": outcome.output, "timings": outcome.timings}
    else:
        error = outcome.error
        line |= {
            "status": "rejected",
            "error": {
                "stage": error.stage,
                "code": error.code,
                "class": error.error_class,
                "message": error.message,
                "attempts": error.attempts,
            },
            "payload_omitted": outcome.payload_omitted,
        }
    return msgspec.json.encode(line)


def outcome_cells(outcome: Outcome) -> tuple[str, ...]:
    """Spell an outcome as the cells of a table row, fit for a terminal whatever their sender put into them."""
    if isinstance(outcome, Result):
        status, milliseconds = str(outcome.status), f"{outcome.timings.queue_ms + outcome.timings.model_ms:.1f}"
        answer = "" if outcome.output is None else bytes(outcome.output).decode(errors="replace")
    else:
        status, milliseconds = "rejected", ""
        answer = f"{outcome.error.code}: {outcome.error.message}"
    model = f"{outcome.model}:{outcome.version}" if outcome.model else ""
    return tuple(map(one_line, (outcome.request_id, status, model, milliseconds, str(outcome.source), answer)))


def is_ok(outcome: Outcome) -> bool:
    """Whether the request got an answer from the model."""
    return isinstance(outcome, Result) and outcome.status == "ok"


def _place(position: Position) -> dict[str, Any]:
    return {"topic": position.topic, "partition": position.partition, "offset": position.offset}
