"""What an operator asks for when versions are switched, read from the words of a command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from model_store.timeline import NOBODY, Author, check_split
from schemas.errors import ConfigurationError

MIN_LEAD_MS = 2000
"""An exact switch is armed at least this long before its instant: a worker that hears no hint looks more often."""
MAX_LEAD_MS = 7 * 24 * 3600 * 1000
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_RELATIVE = re.compile(r"now\+(\d{1,9})(ms|s|m|h)\Z")
_WEIGHT = re.compile(r"[0-9]{1,10}\Z")
_QUORUM = re.compile(r"(\d{1,4})(%?)\Z")


@dataclass(frozen=True)
class Quorum:
    """How many of the live workers have to be ready before a switch is committed: all of them by default."""

    count: int | None = None
    """So many, however many live."""
    percent: int | None = None
    """This share of those that live, rounded up."""

    def count_needed(self, live: int) -> int:
        """Return how many have to be ready when `live` workers live; at least one."""
        if self.count is not None:
            return self.count
        return max(1, -(-live * (100 if self.percent is None else self.percent) // 100))

    @property
    def is_all(self) -> bool:
        """Whether every worker has to be ready."""
        return self.count is None and self.percent in {None, 100}


@dataclass(frozen=True)
class Instant:
    """When an exact switch takes effect: after a lead that begins with the commit, or at a time of the clock."""

    lead_ms: int = MIN_LEAD_MS
    at_ms: int | None = None
    """Epoch ms; goes before the lead."""

    def resolve(self, now_ms: int) -> int:
        """Return the epoch ms for a commit at `now_ms`."""
        return now_ms + self.lead_ms if self.at_ms is None else self.at_ms


DEFAULT_INSTANT = Instant()


@dataclass(frozen=True)
class SwitchRequest:
    """One activation."""

    split: Mapping[str, int]
    """Whole weights by version; a single one for all of the traffic."""
    instant: Instant | None = DEFAULT_INSTANT
    """None: from now on, with a recorded cut in each partition."""
    author: Author = NOBODY
    quorum: Quorum = Quorum()
    prepare_timeout_seconds: float = 120.0
    """How long the workers may take to get ready. 0: they are not asked to prepare."""
    expected_epoch: int | None = None
    """Refuse when the present epoch is another one. None: the one that is found."""
    floor_epoch: int = 0
    """See :meth:`model_store.timeline.Timeline.with_activation`."""
    replaces_unsound: bool = False
    """Whether a stored value that is no timeline is written over, and not a reason to stop."""


def parse_split(words: Sequence[str]) -> dict[str, int]:
    """Return the split of `VERSION` or `VERSION=90 OTHER=10`. Raises ConfigurationError and UnsafeNameError."""
    if len(words) == 1 and "=" not in words[0]:
        return check_split({words[0]: 1})
    split: dict[str, int] = {}
    for word in words:
        version, separator, weight = word.partition("=")
        if not separator or version in split or not _WEIGHT.match(weight):
            raise ConfigurationError(f"{word!r}: several versions are given as VERSION=WEIGHT, each once")
        split[version] = int(weight)
    return check_split(split)


def parse_quorum(text: str) -> Quorum:
    """Return the quorum of `all`, `N` or `P%`. Raises ConfigurationError."""
    if text == "all":
        return Quorum()
    match = _QUORUM.match(text)
    number = int(match[1]) if match else 0
    if match is None or number < 1 or (match[2] and number > 100):
        raise ConfigurationError(f"quorum {text[:40]!r}: all, a number of workers or a share such as 80% is needed")
    return Quorum(percent=number) if match[2] else Quorum(count=number)


def parse_instant(text: str) -> Instant:
    """Return the instant of `now+2s` (ms, s, m, h) or of an ISO 8601 time with its zone. Raises ConfigurationError."""
    match = _RELATIVE.match(text)
    if match is not None:
        lead_ms = int(match[1]) * _UNITS_MS[match[2]]
        if lead_ms > MAX_LEAD_MS:
            raise ConfigurationError(f"--at {text}: at most {MAX_LEAD_MS // 3_600_000} hours ahead")
        return Instant(lead_ms)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigurationError(f"--at {text[:40]!r}: now+2s or a time with its zone, 2030-01-31T12:00:00Z, is needed")
    return Instant(at_ms=round(moment.timestamp() * 1000))
