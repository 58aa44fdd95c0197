"""What a profile shows."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from headrace.profile_views.picture import check_can_draw, draw
from headrace.profile_views.terminal import PLOT_COLUMNS, plot, show_choice, show_comparison, show_measured
from schemas.errors import ConfigurationError
from stream_workers.profiling.choice import Choice, Goal
from stream_workers.profiling.confirmation import Comparison
from stream_workers.profiling.forecast import Forecast, Latencies
from stream_workers.profiling.service_curve import SizeTimes, fit_curve
from stream_workers.profiling.setups import Candidate, Setup

SETUP = Setup("v1", 2, 1, 2)
CURVE = fit_curve([SizeTimes(1, (0.011, 0.011)), SizeTimes(8, (0.018, 0.030))])
POINTS = [
    Forecast(rate, Latencies(p99, p99), Latencies(p99, p99), 2.0) for rate, p99 in ((10, 0.1), (90, 0.2), (100, 2))
]


def shown(show: object, *arguments: object) -> str:
    console = Console(file=io.StringIO(), width=110)
    show(console, *arguments)  # type: ignore[operator]  # one of the functions above
    return console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO above


def test_the_measurements_name_setup_size_and_line() -> None:
    text = shown(show_measured, {SETUP: CURVE})
    assert "2 x 1" in text
    assert "24.00" in text
    assert "ms per record" in text
    assert "not quiet" in text


def test_the_choice_is_shown_as_settings_with_the_knee() -> None:
    choice = Choice(Candidate(SETUP, 8, "auto"), 95.0, POINTS[0])
    text = shown(show_choice, choice, POINTS, POINTS[1])
    assert "batching.max_wait_ms" in text
    assert "auto" in text
    assert "K" in text
    assert "90/s, p99 200 ms" in text


def test_the_plot_puts_the_largest_rate_at_the_right_and_the_largest_latency_on_top() -> None:
    rows = str(plot(POINTS, POINTS[1])).splitlines()
    assert rows[1].endswith("*")
    assert len(rows[1]) == len(f"{'':>9} |") + PLOT_COLUMNS
    assert rows[1].strip().startswith("2,000")
    assert "K" in "".join(rows[2:])


def test_a_flat_curve_is_drawn_too() -> None:
    assert "K" in str(plot([POINTS[0]], POINTS[0]))


def test_the_comparison_says_what_does_not_hold() -> None:
    text = shown(show_comparison, [Comparison("p50, ms", 100, 100), Comparison("p99, ms", 100, 200)])
    assert "-50.0%" in text
    assert "NO" in text


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    check_can_draw()
    path = tmp_path / "out.png"
    draw(path, {SETUP: CURVE}, POINTS, POINTS[1], Goal(50, 0.2))
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigurationError, match="--plot"):
        draw(tmp_path / "no/out.png", {SETUP: CURVE}, POINTS, POINTS[1], Goal(50, 0.2))
