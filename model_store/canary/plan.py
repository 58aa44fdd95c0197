"""What an operator asks of a canary: its stages, how long each lasts, and what ends it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from model_store.canary.observation import FieldPath
from model_store.timeline import Timeline
from schemas.errors import ConfigurationError, PointerConflictError
from schemas.names import check_name

MAX_STAGES = 20
MIN_WINDOW_SECONDS = 1.0
MAX_WINDOW_SECONDS = 24 * 3600.0
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_WINDOW = re.compile(r"([0-9]{1,9})(ms|s|m|h)\Z")


@dataclass(frozen=True)
class Thresholds:
    """How much worse than the version before a canary may be. Raises ConfigurationError for what cannot be meant."""

    min_results: int = 200
    """Results of each version before anything is decided."""
    max_error_rate_increase: float = 0.02
    """Expired and dead-lettered requests, and answers without a quality, as a share of all: the difference allowed."""
    max_latency_ratio: float = 1.5
    """Of the 95th percentiles."""
    max_quality_drop: float = 0.05
    """Of the mean, in the field's own unit."""

    def __post_init__(self) -> None:
        if self.min_results < 1:
            raise ConfigurationError(f"--min-results {self.min_results}: at least 1 is needed")
        for option, value, least, most in (
            ("--max-error-rate-increase", self.max_error_rate_increase, 0.0, 1.0),
            ("--max-latency-ratio", self.max_latency_ratio, 1.0, 1e6),
            ("--max-quality-drop", self.max_quality_drop, 0.0, 1e300),
        ):
            if not least <= value <= most:
                raise ConfigurationError(f"{option} {value:g}: {least:g} to {most:g} is needed")


@dataclass(frozen=True)
class CanaryPlan:
    """One canary."""

    version: str
    stages: tuple[int, ...] = (1, 10, 50, 100)
    """Its share in percent, stage by stage; the last is 100."""
    window_seconds: float = 60.0
    """How long each stage but the last is watched, and how long Redis or Kafka may be silent."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    quality_path: FieldPath | None = None
    """Where in an answer the quality lies; None: it is not looked at."""

    def __post_init__(self) -> None:
        check_name("version", self.version)
        check_stages(self.stages)
        if not MIN_WINDOW_SECONDS <= self.window_seconds <= MAX_WINDOW_SECONDS:
            raise ConfigurationError(f"--window of {self.window_seconds:g} s: 1 s to 24 h is needed")

    def find_old(self, timeline: Timeline, now_ms: int) -> str:
        """Return the version that the canary is compared with: the one that is active alone.

        Raises ConfigurationError when there is none, and PointerConflictError while a switch is still to come.
        """
        latest = timeline.latest
        if latest is None:
            raise ConfigurationError("no version is active to compare with: begin with `headrace models activate`")
        if latest.is_armed(now_ms):
            raise PointerConflictError(f"epoch {latest.epoch} is armed and still to come: try again then")
        if len(latest.split) > 1:
            raise ConfigurationError(
                f"{', '.join(latest.split)} share the traffic: a canary is compared with a version that is active alone"
            )
        old = next(iter(latest.split))
        if old == self.version:
            raise ConfigurationError(f"{self.version} is active already")
        return old

    def split_at(self, share: int, old: str) -> Mapping[str, int]:
        """Return the split that gives the canary `share` percent."""
        return {self.version: 1} if share == 100 else {old: 100 - share, self.version: share}


def parse_stages(text: str) -> tuple[int, ...]:
    """Return the stages of `1,10,50,100`. Raises ConfigurationError."""
    words = [word.strip().removesuffix("%").strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 3 for word in words):
        raise ConfigurationError(f"--stages {text[:40]!r}: whole percentages such as 1,10,50,100 are needed")
    return check_stages(tuple(map(int, words)))


def check_stages(stages: tuple[int, ...]) -> tuple[int, ...]:
    """Return sound stages. Raises ConfigurationError."""
    is_rising = all(low < high for low, high in zip((0, *stages), stages, strict=False))
    if not 1 <= len(stages) <= MAX_STAGES or not is_rising or stages[-1] != 100:
        raise ConfigurationError(
            f"--stages {','.join(map(str, stages))[:40]}: 1 to {MAX_STAGES} rising percentages are needed, the last 100"
        )
    return stages


def parse_window(text: str) -> float:
    """Return the seconds of `60s` (ms, s, m, h). Raises ConfigurationError."""
    match = _WINDOW.match(text)
    if match is None:
        raise ConfigurationError(f"--window {text[:40]!r}: a time such as 60s or 10m is needed")
    return int(match[1]) * _UNIT_SECONDS[match[2]]
