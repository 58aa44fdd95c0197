"""What an audit can find, counted, with examples."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_EXAMPLES = 10


class Kind(enum.StrEnum):
    """One way in which delivery can have gone wrong."""

    MISSING = "missing"
    """A request without an outcome. Tombstones need none."""
    DOUBLED = "doubled"
    """A second outcome for one source position, or more outcomes under an id than requests."""
    OUT_OF_ORDER = "out_of_order"
    """In one partition of outcomes, an outcome behind one of a later request of the same source partition."""
    UNKNOWN = "unknown"
    """An outcome for a request that was never sent, or under another id than the request's."""
    WRONG_VERSION = "wrong_version"
    """A version epoch that went back along the offsets of a source partition."""
    EARLY_CUT = "early_cut"
    """A record before the cut of a switch that met what begins there, or a switch without any cut."""
    LATE_CUT = "late_cut"
    """A record at or after the cut of a switch that met what was before it."""
    MIXED_VERSIONS = "mixed_versions"
    """A record that met another version than its epoch, or its key under a split, has."""
    UNKNOWN_DECISION = "unknown_decision"
    """A record under an epoch that no entry of the timeline has."""
    CUT_TWICE = "cut_twice"
    """A switch that has two different cuts recorded for one partition."""
    UNREADABLE = "unreadable"
    """A record in an outcome topic that is no outcome."""
    UNSTABLE = "unstable"
    """An outcome that only one of the two readers saw."""
    GROUP_BEHIND = "group_behind"
    """A group that has not committed the last request of a partition."""
    GROUP_AHEAD = "group_ahead"
    """A group that has committed beyond the end of a partition, or beyond a request that has no outcome."""
    HANGING = "hanging"
    """A partition of outcomes that an open transaction holds back from readers."""


@dataclass
class Finding:
    """How often one thing went wrong, and where the first times."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(example)


class Findings:
    """Findings by kind. A kind that was never met is absent."""

    def __init__(self) -> None:
        self._by_kind: dict[Kind, Finding] = {}

    def add(self, kind: Kind, example: str) -> None:
        """Count one more of `kind`; the first examples are kept."""
        self._by_kind.setdefault(kind, Finding()).add(example)

    def take_over(self, others: Mapping[Kind, Finding]) -> None:
        """Add what was found elsewhere, of kinds that were not met here."""
        self._by_kind |= others

    def count(self, kind: Kind) -> int:
        """Count the findings of one kind."""
        return self._by_kind[kind].count if kind in self._by_kind else 0

    def by_kind(self) -> Mapping[Kind, Finding]:
        """Look at all findings, in the order of :class:`Kind`."""
        return {kind: self._by_kind[kind] for kind in Kind if kind in self._by_kind}
