"""Throughput against latency as a PNG. The only module that imports matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from schemas.errors import ConfigurationError
from stream_workers.profiling.choice import Goal
from stream_workers.profiling.forecast import Forecast
from stream_workers.profiling.service_curve import ServiceCurve
from stream_workers.profiling.setups import Setup


def check_can_draw() -> None:
    """Raise ConfigurationError when matplotlib is not installed: better before minutes of measuring than after."""
    try:
        import matplotlib  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigurationError(
            "--plot needs matplotlib: install the extra, `pip install 'headrace[plots]'`"
        ) from None


def draw(
    path: Path, curves: Mapping[Setup, ServiceCurve], points: Sequence[Forecast], knee: Forecast, goal: Goal
) -> None:
    """Write the picture: throughput by batch size for every setup, and the chosen one's latency over the rate."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    # Without pyplot: no display is looked for and no global state is left.
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    by_size, by_rate = figure.subplots(1, 2)
    for setup, curve in curves.items():
        sizes = [one.batch_size for one in curve.measured]
        rates = [curve.capacity(size, setup.instances) for size in sizes]
        by_size.plot(sizes, rates, marker="o", markersize=3, label=setup.describe())
    by_size.set(xscale="log", xlabel="batch size", ylabel="records/s, all instances busy", ylim=(0, None))
    by_size.legend(fontsize=7)
    rates = [one.rate for one in points]
    by_rate.plot(rates, [one.visible.p99 * 1000 for one in points], label="p99")
    by_rate.plot(rates, [one.visible.p50 * 1000 for one in points], label="p50")
    by_rate.axhline(goal.p99_seconds * 1000, linestyle=":", color="grey", label="target")
    by_rate.axvline(goal.rate, linestyle=":", color="lightgrey", label="asked rate")
    by_rate.plot([knee.rate], [knee.visible.p99 * 1000], marker="D", color="black", linestyle="", label="knee")
    by_rate.set(yscale="log", xlabel="records/s", ylabel="latency until visible, ms", title="chosen settings")
    by_rate.legend(fontsize=7)
    try:
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise ConfigurationError(f"--plot {path}: {error.strerror}") from None
