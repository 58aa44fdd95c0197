"""A report on versions for people."""

from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from producers.audit.rendering import draw_finding
from producers.audit.version_audit import VersionReport
from producers.audit.version_proof import CutRow
from schemas.errors import one_line

_COLUMNS = ("partition", "epoch", "versions", "mode", "records", "from offset", "appended", "due from", "verdict")


def render_version_report(report: VersionReport) -> RenderableType:
    """Lay a report out: the verdict, a row for each epoch of each partition, every finding with its first examples."""
    proof = report.proof
    verdict = Text("clean", style="bold green") if report.clean else Text("not clean", style="bold red")
    parts: list[RenderableType] = [
        Text.assemble(f"versions of {one_line(report.model)}: ", verdict),
        Text(f"checked: {', '.join(report.checked)}; {proof.records} records"),
    ]
    if proof.rows:
        parts.append(_draw_rows(proof.rows))
    left_out = {
        "outcomes that met no version": report.unversioned,
        "outcomes of other models": report.other_models,
        "records that are no outcome": report.unreadable,
        "records without append time, so that exact cuts may be early": proof.undated,
        "records whose keys were too many to follow": proof.keys_not_followed,
    }
    parts += [Text(f"{name}: {count}") for name, count in left_out.items() if count]
    parts += [draw_finding(kind, finding) for kind, finding in proof.findings.items()]
    return Group(*parts)


def _draw_rows(rows: tuple[CutRow, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, overflow="fold")
    for row in rows:
        cells = (
            f"{row.partition[0]}[{row.partition[1]}]",
            str(row.epoch),
            ", ".join(row.versions),
            row.mode or "-",
            str(row.records),
            str(row.offset),
            _describe_time(row.timestamp_ms),
            _describe_due(row),
            row.verdict,
        )
        # Text, not markup: whoever writes to the topic chooses the names.
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    return table


def _describe_due(row: CutRow) -> str:
    offset = "-" if row.due_offset is None else str(row.due_offset)
    return offset if row.effective_from_ms is None else f"{offset} ({_describe_time(row.effective_from_ms)})"


def _describe_time(epoch_ms: int) -> str:
    if not epoch_ms:
        return "-"
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(epoch_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
