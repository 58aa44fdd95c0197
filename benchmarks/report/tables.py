"""Sections as tables: on the terminal and in Markdown."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.report.section import Section

_SHARES = frozenset({"agreeing", "of limit", "utilisation", "goodput share", "in time", "of capacity"})


def render_table(section: Section) -> Table:
    """A section for the terminal."""
    table = Table(title=section.title, title_justify="left")
    for number, column in enumerate(section.columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in section.rows:
        table.add_row(*(format_value(column, row.get(column)) for column in section.columns))
    return table


def render_markdown(sections: Sequence[Section], machine: Mapping[str, Any], about: Sequence[str]) -> str:
    """The whole report."""
    lines = ["# Benchmark", "", *about, "", "| machine | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in machine.items()]
    for section in sections:
        lines += ["", f"## {section.name}: {section.title}", ""]
        if section.rows:
            lines.append("| " + " | ".join(section.columns) + " |")
            lines.append("| --- |" + " ---: |" * (len(section.columns) - 1))
            lines += [
                "| " + " | ".join(format_value(column, row.get(column)) for column in section.columns) + " |"
                for row in section.rows
            ]
        lines += ["", *(f"- {note}" for note in section.notes)]
        lines += [f"- Left out: {one.contestant}: {one.reason}" for one in section.skipped]
        lines += [f"\n![{chart.title}]({chart_name(section, number)})" for number, chart in enumerate(section.charts)]
    return "\n".join(lines) + "\n"


def chart_name(section: Section, number: int) -> str:
    """The file name of a section's chart."""
    return f"{section.name}-{number + 1}.png" if number else f"{section.name}.png"


def format_value(column: str, value: Any) -> str:
    """One cell: percentages for shares, three digits that matter for small numbers, whole numbers for large ones."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if not isinstance(value, float):
        return str(value)
    if column in _SHARES:
        return f"{value:.1%}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if column.startswith("x ") or abs(value) < 10 else f"{value:.1f}"
