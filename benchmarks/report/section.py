"""What a scenario found, in a form that tables, Markdown, JSON and charts are made of."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Skipped:
    """A contestant that gave no figure, and why."""

    contestant: str
    reason: str


@dataclass(frozen=True)
class Chart:
    """A picture of a section. Points are (x, y); of bars the name is the series and there is one point."""

    kind: str
    """`bars` or `lines`."""
    title: str
    x_label: str
    y_label: str
    series: dict[str, list[tuple[float, float]]]
    is_logarithmic: bool = False
    reference: float | None = None
    """A line across: a limit or a capacity."""
    suffixes: dict[str, str] = field(default_factory=dict)
    """Of bars: what is written behind a bar."""


@dataclass
class Section:
    """The findings of one scenario."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Numbers stay numbers; how they are shown is for the table."""
    notes: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    """For the JSON file alone: single rounds, histograms."""
