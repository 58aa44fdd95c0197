"""What an audit came to."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from producers.audit.findings import Finding, Kind
from producers.audit.ledger import Counts


@dataclass(frozen=True)
class AuditReport:
    """The whole of it. `clean` is the verdict; everything else says why."""

    total: Counts
    by_key: Mapping[str | None, Counts]
    findings: Mapping[Kind, Finding]
    unlisted: int = 0
    """Outcomes of requests that are not in the sent-file."""
    tombstones: int = 0
    watched: int | None = None
    """Outcomes that the reader during saw; None when there was none."""
    group: str | None = None
    checked: tuple[str, ...] = field(default=())
    """What was looked at, in words, so that a clean report does not promise more than it checked."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def count(self, kind: Kind) -> int:
        """Count the findings of one kind."""
        return self.findings[kind].count if kind in self.findings else 0

    def to_json(self) -> dict[str, Any]:
        """Spell the report as plain JSON values, every kind of finding included."""
        return {
            "clean": self.clean,
            "checked": list(self.checked),
            "group": self.group,
            "total": asdict(self.total),
            "unlisted": self.unlisted,
            "tombstones": self.tombstones,
            "watched": self.watched,
            "findings": {kind.value: {"count": self.count(kind), "examples": self._examples(kind)} for kind in Kind},
            "streams": [{"key": key, **asdict(counts)} for key, counts in self.worst_streams()],
        }

    def worst_streams(self, limit: int = 20) -> list[tuple[str | None, Counts]]:
        """The streams with the most faults; of those alike, the busiest first."""

        def rank(entry: tuple[str | None, Counts]) -> tuple[int, int, str]:
            key, counts = entry
            return -(counts.missing + counts.doubled + counts.out_of_order), -counts.sent, key or ""

        return sorted(self.by_key.items(), key=rank)[:limit]

    def _examples(self, kind: Kind) -> list[str]:
        return list(self.findings[kind].examples) if kind in self.findings else []
