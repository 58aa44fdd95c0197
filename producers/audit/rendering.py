"""A report for people."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from producers.audit.findings import Finding, Kind
from producers.audit.ledger import Counts
from producers.audit.report import AuditReport
from schemas.errors import one_line

_COLUMNS = ("sent", "ok", "expired", "dead_letters", "missing", "doubled", "out_of_order")


def render_report(report: AuditReport, *, streams: int = 10) -> RenderableType:
    """Lay a report out: the verdict, the counts, every finding with its first examples, the worst streams."""
    verdict = Text("clean", style="bold green") if report.clean else Text("not clean", style="bold red")
    parts: list[RenderableType] = [Text.assemble("audit: ", verdict), Text(f"checked: {', '.join(report.checked)}")]
    parts.append(_counts_table([("all streams", report.total), *_named_streams(report, streams)]))
    if len(report.by_key) > streams:
        parts.append(Text(f"and {len(report.by_key) - streams} more streams, none of them worse"))
    if report.unlisted or report.tombstones:
        parts.append(Text(f"tombstones: {report.tombstones}; outcomes of requests not listed: {report.unlisted}"))
    if report.watched is not None:
        parts.append(Text(f"outcomes seen by the reader during: {report.watched}"))
    parts += [draw_finding(kind, report.findings[kind]) for kind in Kind if report.count(kind)]
    return Group(*parts)


def _named_streams(report: AuditReport, limit: int) -> list[tuple[str, Counts]]:
    return [("(no key)" if key is None else one_line(key), counts) for key, counts in report.worst_streams(limit)]


def _counts_table(rows: list[tuple[str, Counts]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stream", no_wrap=True, overflow="ellipsis", max_width=40)
    for name in _COLUMNS:
        table.add_column(name.replace("_", " "), justify="right")
    for name, counts in rows:
        # Text, not markup: a key may contain square brackets.
        table.add_row(Text(name), *(str(getattr(counts, column)) for column in _COLUMNS))
    return table


def draw_finding(kind: Kind, finding: Finding) -> Text:
    """One kind of finding with its first examples."""
    lines = [
        f"{kind.value.replace('_', ' ')}: {finding.count}",
        *(f"  {one_line(str(example))}" for example in finding.examples),
    ]
    if finding.count > len(finding.examples):
        lines.append(f"  and {finding.count - len(finding.examples)} more")
    return Text("\n".join(lines), style="red")
