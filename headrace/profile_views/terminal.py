"""The tables of a profile, and throughput against latency in characters."""

import math
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_workers.profiling.choice import Choice
from stream_workers.profiling.confirmation import TOLERANCE, Comparison
from stream_workers.profiling.forecast import Forecast
from stream_workers.profiling.service_curve import ServiceCurve
from stream_workers.profiling.setups import Setup

PLOT_COLUMNS = 64
PLOT_ROWS = 14
RESTLESS_SPREAD = 0.3
"""From the 10th to the 90th percentile, as a share of the median: a quiet machine stays well below it."""


def show_measured(console: Console, curves: Mapping[Setup, ServiceCurve]) -> None:
    """Print service times and throughput of every setup by batch size, and the line through them."""
    table = Table(title="service times, all instances busy")
    table.add_column("version")
    for column in ("instances x threads", "slots", "batch", "median, ms", "spread", "records/s"):
        table.add_column(column, justify="right")
    for setup, curve in curves.items():
        best = max(curve.capacity(one.batch_size, setup.instances) for one in curve.measured)
        head = [setup.version, f"{setup.instances} x {setup.threads}", str(setup.slots)]
        for one in curve.measured:
            rate = curve.capacity(one.batch_size, setup.instances)
            shown = Text(f"{rate:,.0f}", style="bold" if rate == best else "")
            ends = one is curve.measured[-1]
            cells = [str(one.batch_size), f"{one.median * 1000:.2f}", f"{one.spread:.0%}"]
            table.add_row(*head, *cells, shown, end_section=ends)
            head = [""] * 3
    console.print(table)
    for setup, curve in curves.items():
        line = f"{curve.fixed_seconds * 1000:.2f} ms + {curve.per_record_seconds * 1000:.3f} ms per record"
        console.print(f"{setup.describe()}: {line}, misfit up to {curve.worst_misfit:.0%}", highlight=False)
    worst = max(one.spread for curve in curves.values() for one in curve.measured)
    if worst > RESTLESS_SPREAD:
        console.print(f"the machine is not quiet: service times spread by up to {worst:.0%}, so expect less of these")


def show_choice(console: Console, choice: Choice, points: Sequence[Forecast], knee: Forecast) -> None:
    """Print the chosen settings, what is expected of them, and the plot."""
    candidate, expected = choice.candidate, choice.at_rate
    table = Table(title="chosen", show_header=False)
    for name, value in (
        ("model.version", candidate.setup.version),
        ("model.instances", str(candidate.setup.instances)),
        ("model.threads", str(candidate.setup.threads)),
        ("batching.max_batch_size", str(candidate.max_batch_size)),
        ("batching.max_wait_ms", str(candidate.max_wait_ms)),
        ("batching.slots", str(candidate.setup.slots)),
        (f"expected at {expected.rate:,.0f}/s", expected.describe()),
        ("largest rate within the target", f"{choice.largest_rate:,.0f}/s"),
        ("knee", f"{knee.rate:,.0f}/s, p99 {knee.visible.p99 * 1000:.0f} ms"),
    ):
        table.add_row(name, value)
    console.print(Group(table, plot(points, knee)))


def show_comparison(console: Console, comparisons: Sequence[Comparison]) -> None:
    """Print forecast against measurement."""
    table = Table(title=f"forecast against a second measurement, without Kafka (holds within {TOLERANCE:.0%})")
    table.add_column("")
    for column in ("forecast", "measured", "error", "holds"):
        table.add_column(column, justify="right")
    for one in comparisons:
        verdict = "yes" if one.holds else "NO"
        table.add_row(one.name, f"{one.forecast:,.1f}", f"{one.measured:,.1f}", f"{one.error:+.1%}", verdict)
    console.print(table)


def plot(points: Sequence[Forecast], knee: Forecast) -> RenderableType:
    """Draw p99 (logarithmic) over the rate; `*` is a forecast and `K` the knee."""
    lows = [math.log(one.visible.p99) for one in points]
    low, high = min(lows), max(lows)
    most = max(one.rate for one in points)
    grid = [[" "] * PLOT_COLUMNS for _ in range(PLOT_ROWS)]
    for one in points:
        column = min(PLOT_COLUMNS - 1, int(one.rate / most * (PLOT_COLUMNS - 1)))
        height = (math.log(one.visible.p99) - low) / (high - low) if high > low else 0.0
        grid[PLOT_ROWS - 1 - round(height * (PLOT_ROWS - 1))][column] = "K" if one is knee else "*"
    text = Text("p99, ms, logarithmic, over records/s; K is the knee\n", style="bold")
    for row, cells in enumerate(grid):
        share = 1 - row / (PLOT_ROWS - 1)
        label = f"{math.exp(low + share * (high - low)) * 1000:,.0f}" if row % 3 == 1 or row == 0 else ""
        text.append(f"{label:>9} |{''.join(cells).rstrip()}\n", style="")
    text.append(f"{'':>9} +{'-' * PLOT_COLUMNS}\n{'':>10}0{f'{most:,.0f}':>{PLOT_COLUMNS}}\n", style="")
    return text
