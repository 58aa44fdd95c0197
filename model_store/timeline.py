"""Which versions answer, and since when: an epoch-numbered list of decisions, as pure data.

The last entry is the active pointer. Which entry a record meets, :mod:`model_store.record_versions` says.
"""

import bisect
import enum
import itertools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from schemas.errors import ConfigurationError, PointerConflictError, VersionNotFoundError
from schemas.names import check_name

MAX_ENTRIES = 64
MAX_SPLIT = 16
MAX_WEIGHT = 1_000_000
MAX_NUMBER = 1 << 53
"""The largest epoch and epoch ms: what every reader of JSON can hold."""
MAX_BY_CHARS = 80
MAX_REASON_CHARS = 200
CALL_OFF_MARGIN_MS = 200
"""An exact switch may be called off until this long before its instant, and not later."""


class SwitchMode(enum.StrEnum):
    """Where in a partition an entry begins to apply."""

    EXACT = "exact"
    """At records whose append timestamp is `effective_from_ms` or later."""
    NOW = "now"
    """At the offset that the partition's owner recorded as its cut when it learned of the entry."""


@dataclass(frozen=True)
class Author:
    """Who decided, and why. Raises ConfigurationError for a text that is too long or not printable."""

    by: str = ""
    """user@host, at most MAX_BY_CHARS characters."""
    reason: str = ""
    """At most MAX_REASON_CHARS characters."""

    def __post_init__(self) -> None:
        for name, text, limit in (("by", self.by, MAX_BY_CHARS), ("reason", self.reason, MAX_REASON_CHARS)):
            if len(text) > limit or not text.isprintable():
                raise ConfigurationError(f"{name} {text[:40]!r}: at most {limit} printable characters on one line")


NOBODY = Author()


@dataclass(frozen=True)
class TimelineEntry:
    """One decision: from some point of each partition on, the versions of `split` answer, by their whole weights."""

    epoch: int
    split: Mapping[str, int]
    effective_from_ms: int
    """Epoch ms. It decides for an exact entry; for the others it says when, and their cuts decide."""
    mode: SwitchMode = SwitchMode.NOW
    at_ms: int = 0
    """When it was decided, epoch ms; 0 when that is not known."""
    author: Author = NOBODY

    def __post_init__(self) -> None:
        object.__setattr__(self, "split", MappingProxyType(dict(self.split)))

    @property
    def heaviest(self) -> str:
        """The version with the largest share: what a worker that serves only one takes."""
        return max(self.split, key=lambda version: self.split[version])

    def pick(self, key: bytes) -> str:
        """Return the version for a key: always the same one under this entry."""
        if len(self.split) == 1:
            return next(iter(self.split))
        versions = sorted(self.split)
        edges = list(itertools.accumulate(self.split[version] for version in versions))
        # Seeded by nothing but the key: raising a canary's share moves only the keys that it gains.
        return versions[bisect.bisect_right(edges, zlib.crc32(key) * edges[-1] >> 32)]

    def is_armed(self, now_ms: int) -> bool:
        """Whether it is exact and its instant is still to come."""
        return self.mode is SwitchMode.EXACT and now_ms < self.effective_from_ms


@dataclass(frozen=True)
class Timeline:
    """The decisions of one model, oldest first: epochs rise, times never fall, at most MAX_ENTRIES are kept."""

    entries: tuple[TimelineEntry, ...] = field(default=())

    @property
    def latest(self) -> TimelineEntry | None:
        """The active pointer: the last decision, be its time come or not; None before the first."""
        return self.entries[-1] if self.entries else None

    @property
    def epoch(self) -> int:
        """The epoch of the last decision; 0 before the first."""
        return self.entries[-1].epoch if self.entries else 0

    def list_called_off(self) -> frozenset[int]:
        """Return the epochs of exact switches that met no record: the next decision came before their instant."""
        return frozenset(
            entry.epoch
            for entry, successor in itertools.pairwise(self.entries)
            if entry.is_armed(successor.at_ms) and successor.effective_from_ms == entry.effective_from_ms
        )

    def with_activation(
        self,
        split: str | Mapping[str, int],
        expected_epoch: int,
        now_ms: int,
        floor_epoch: int = 0,
        *,
        effective_from_ms: int | None = None,
        author: Author = NOBODY,
    ) -> "Timeline":
        """Return the timeline in which `split`, or one version alone, answers under the next epoch.

        With `effective_from_ms` the switch is exact at that instant, moved behind the last one if need be; without, it
        is one from now on. `floor_epoch` lifts the new epoch above one that workers are known to hold, after a restored
        or emptied Redis. Raises PointerConflictError when the epoch is not `expected_epoch`, UnsafeNameError for a
        version and ConfigurationError for a weight or a floor out of range.
        """
        weights = check_split({split: 1} if isinstance(split, str) else split)
        if expected_epoch != self.epoch:
            raise PointerConflictError(f"the active epoch is {self.epoch}, not {expected_epoch}: read it again")
        latest = self.entries[-1].effective_from_ms if self.entries else 0
        starts, mode = (now_ms, SwitchMode.NOW) if effective_from_ms is None else (effective_from_ms, SwitchMode.EXACT)
        epoch = max(self.epoch, floor_epoch) + 1
        if epoch > MAX_NUMBER:
            raise ConfigurationError(f"epoch {epoch} is out of range: at most {MAX_NUMBER}")
        entry = TimelineEntry(epoch, weights, max(starts, latest), mode, now_ms, author)
        return Timeline((*self.entries, entry)[-MAX_ENTRIES:])

    def with_called_off(self, epoch: int, now_ms: int, author: Author = NOBODY) -> "Timeline":
        """Return the timeline in which the armed switch of `epoch` applies to no record: the split before it goes on.

        Raises PointerConflictError when `epoch` is not the last one, is no armed exact switch, has nothing before it,
        or is closer than CALL_OFF_MARGIN_MS to its instant.
        """
        latest = self.latest
        if latest is None or latest.epoch != epoch:
            raise PointerConflictError(f"the active epoch is {self.epoch}, not {epoch}: read it again")
        if len(self.entries) < 2 or not latest.is_armed(now_ms + CALL_OFF_MARGIN_MS):
            raise PointerConflictError(f"epoch {epoch} cannot be called off: it is no switch that is still to come")
        before = self.entries[-2].split
        return self.with_activation(before, epoch, now_ms, effective_from_ms=latest.effective_from_ms, author=author)

    def with_rollback(self, to: str | None, expected_epoch: int, now_ms: int, author: Author = NOBODY) -> "Timeline":
        """Return the timeline in which `to`, or else the last split that differs from the present one, answers now.

        Splits that were called off are passed over. Raises PointerConflictError as :meth:`with_activation`, and
        VersionNotFoundError when nothing kept differs or `to` is in no entry that is kept.
        """
        target = self._find_before() if to is None else self._find_version(to)
        return self.with_activation(target, expected_epoch, now_ms, author=author)

    def _find_before(self) -> Mapping[str, int]:
        present = self.entries[-1].split if self.entries else {}
        called_off = self.list_called_off()
        for entry in reversed(self.entries):
            if entry.split != present and entry.epoch not in called_off:
                return entry.split
        raise VersionNotFoundError("nothing to roll back to: no other version was active before")

    def _find_version(self, version: str) -> Mapping[str, int]:
        check_name("version", version)
        if all(version not in entry.split for entry in self.entries):
            there = ", ".join(sorted({name for entry in self.entries for name in entry.split})) or "none"
            raise VersionNotFoundError(f"version {version} was never active; there were {there}")
        return {version: 1}


def check_split(split: Mapping[str, int]) -> dict[str, int]:
    """Return a copy of a sound split. Raises UnsafeNameError for a version, ConfigurationError for all else."""
    if not 1 <= len(split) <= MAX_SPLIT:
        raise ConfigurationError(f"a split names 1 to {MAX_SPLIT} versions, not {len(split)}")
    for version, weight in split.items():
        check_name("version", version)
        if type(weight) is not int or not 1 <= weight <= MAX_WEIGHT:
            raise ConfigurationError(f"weight {weight!r} of {version} is not a whole number from 1 to {MAX_WEIGHT}")
    return dict(split)
