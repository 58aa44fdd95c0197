"""What a run of the suite is asked to do."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contestants.catalogue import Contestant, overlay_contestant

RESULTS = Path(__file__).parent / "results"
FULL_ROUNDS, QUICK_ROUNDS = 5, 2
FULL_SECONDS, QUICK_SECONDS = 5.0, 2.5


@dataclass(frozen=True)
class Options:
    """See the help texts below."""

    only: tuple[str, ...]
    contestants: tuple[str, ...]
    rounds: int
    seconds: float
    is_quick: bool
    is_check: bool
    is_thorough: bool
    out: Path
    overlays: tuple[Contestant, ...]


def read_options(argv: Sequence[str] | None, scenarios: Sequence[str], quick_scenarios: Sequence[str]) -> Options:
    """Parse the command line; exits with a message when it cannot be right."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="three minutes: two rounds of the contestants that matter most")
    add("--only", action="append", choices=scenarios, default=[], help="a scenario; may be given again")
    add("--contestants", action="extend", nargs="+", default=[], help="names or families: limits loops peers ours")
    add("--rounds", type=int, help=f"alternating rounds: {FULL_ROUNDS}, or {QUICK_ROUNDS} with --quick")
    add("--seconds", type=float, help=f"how long a throughput run lasts: {FULL_SECONDS:g}, quick {QUICK_SECONDS:g}")
    add("--check", action="store_true", help="only see that every contestant answers rightly, on small backlogs")
    add("--thorough", action="store_true", help="all rounds for contestants that are far behind too")
    add("--out", type=Path, default=RESULTS, help="folder for results.json, results.md and the charts")
    add(
        "--overlay",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="one more Headrace contestant: exactly once with this settings file laid over the workload's",
    )
    given = parser.parse_args(argv)
    if given.rounds is not None and given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: at least 1")
    overlays = [_read_overlay(parser, text) for text in given.overlay]
    return Options(
        only=tuple(given.only or (quick_scenarios if given.quick else scenarios)),
        contestants=tuple(given.contestants),
        rounds=given.rounds or (QUICK_ROUNDS if given.quick else FULL_ROUNDS),
        seconds=given.seconds or (QUICK_SECONDS if given.quick else FULL_SECONDS),
        is_quick=given.quick,
        is_check=given.check,
        is_thorough=given.thorough,
        out=given.out,
        overlays=tuple(overlays),
    )


def _read_overlay(parser: argparse.ArgumentParser, text: str) -> Contestant:
    name, _, file = text.partition("=")
    if not name or not Path(file).is_file():
        parser.error(f"--overlay {text}: NAME=FILE is needed, and the file must exist")
    return overlay_contestant(name, Path(file))
