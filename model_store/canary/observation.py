"""Reads one outcome of the result and dead-letter topics as evidence about the version that made it."""

import re
from typing import Any

from model_store.canary.tally import Kind, Observation
from model_store.timeline import TimelineEntry
from schemas.errors import ConfigurationError
from schemas.records import DeadLetter, Result, Stage, Status, sticky_key

MAX_FIELD_CHARS = 200
MAX_NUMBER = 1e100
_NOT_THE_MODEL = frozenset({Stage.DECODE, Stage.VALIDATE})
_STATUS_KINDS = {Status.OK: Kind.OK, Status.EXPIRED: Kind.EXPIRED}
_INDEX = re.compile(r"(0|[1-9][0-9]{0,8})\Z")
_LOOSE_TILDE = re.compile(r"~(?![01])")

FieldPath = tuple[str, ...]
"""Where a number lies in an answer: keys of objects and indices of arrays, from the outside in."""


def parse_field(text: str) -> FieldPath:
    """Return the path of a top-level field's name, or of a JSON pointer (RFC 6901) such as `/0/probability`.

    Raises ConfigurationError.
    """
    if not text or len(text) > MAX_FIELD_CHARS or not text.isprintable():
        raise ConfigurationError(
            f"--quality {text[:40]!r}: a field's name or a JSON pointer such as /0/score is needed"
        )
    if not text.startswith("/"):
        return (text,)
    if _LOOSE_TILDE.search(text):
        raise ConfigurationError(f"--quality {text[:40]!r}: in a JSON pointer, ~ is written as ~0 and / as ~1")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def find_number(answer: Any, path: FieldPath) -> float | None:
    """Return the number at `path`, None when there is none or it is no amount: not finite, or beyond MAX_NUMBER."""
    value = answer
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and _INDEX.match(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    # NaN fails this too; squares of anything larger would not be numbers any more.
    return number if abs(number) <= MAX_NUMBER else None


def observe(outcome: Result | DeadLetter, quality_path: FieldPath | None) -> Observation | None:
    """Return what an outcome says about its version; None when it says nothing.

    That is so for a request that was refused before any model saw it, and for one that a newer record replaced.
    """
    if isinstance(outcome, DeadLetter):
        return None if outcome.error.stage in _NOT_THE_MODEL else Observation(Kind.DEAD_LETTERED)
    kind = _STATUS_KINDS.get(outcome.status)
    if kind is not Kind.OK:
        return None if kind is None else Observation(kind)
    timings = outcome.timings
    # A batch of none: the answer came from the cache.
    latency_ms = timings.queue_ms + timings.model_ms if timings.batch_size > 0 else None
    if quality_path is None:
        return Observation(Kind.OK, latency_ms, max(1, timings.batch_size))
    quality = find_number(outcome.answer, quality_path)
    kind = Kind.UNMEASURED if quality is None else Kind.OK
    return Observation(kind, latency_ms, max(1, timings.batch_size), quality)


def is_as_split(outcome: Result | DeadLetter, entry: TimelineEntry) -> bool:
    """Whether the version that made an outcome is the one that the split names for its key."""
    source = outcome.source
    return outcome.version == entry.pick(sticky_key(outcome.key, source.topic, source.partition, source.offset))
