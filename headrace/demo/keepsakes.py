"""What the demo leaves behind: a contact sheet, the results as JSON lines and a summary."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from headrace.demo.contact_sheet import Row, Tile, choose_evenly
from headrace.demo.footage import Footage
from headrace.demo.kill import Kill
from headrace.demo.labels import top_label
from headrace.demo.scoreboard import Scoreboard
from headrace.demo.stream_ledger import Books, StreamBook
from producers.outcomes import Outcome
from schemas.records import Result

TILES_PER_STREAM = 6


@dataclass(frozen=True)
class Keepsakes:
    """Where the files lie."""

    folder: Path

    @property
    def contact_sheet(self) -> Path:
        """Frames of every stream with their labels."""
        return self.folder / "contact-sheet.png"

    @property
    def results(self) -> Path:
        """Every outcome, a JSON object a line."""
        return self.folder / "results.jsonl"

    @property
    def summary(self) -> Path:
        """The ledger and the measurements."""
        return self.folder / "summary.json"

    @property
    def worker_log(self) -> Path:
        """What the worker said."""
        return self.folder / "worker.log"


def request_id(stream: str, sequence: int) -> str:
    """Name the request of a stream's `sequence`-th frame."""
    return f"{stream}-{sequence:05d}"


def sequence_of(name: str) -> int:
    """Tell from a request's id which frame it carried."""
    return int(name.rpartition("-")[2])


def choose_rows(footage: Sequence[Footage], outcomes: Iterable[Outcome], books: Books) -> list[Row]:
    """Pick answered frames of each stream, evenly over the first showing of its footage, so that none comes twice."""
    results = {outcome.request_id: outcome for outcome in outcomes if isinstance(outcome, Result)}
    rows = []
    for stream in footage:
        answered = [index for index in range(len(stream.frames)) if request_id(stream.name, index) in results]
        chosen = [answered[place] for place in choose_evenly(len(answered), TILES_PER_STREAM)]
        tiles = [_tile(stream, index, results[request_id(stream.name, index)]) for index in chosen]
        book = next((book for book in books.streams if book.name == stream.name), None)
        rows.append(Row(stream.name, _account(book) if book else "", tiles))
    return rows


def _tile(stream: Footage, sequence: int, result: Result) -> Tile:
    label, probability = top_label(result.output)
    return Tile(stream.frame(sequence).payload, label, probability, f"frame {sequence}")


def _account(book: StreamBook) -> str:
    faults = f"{book.missing} missing, {book.doubled} doubled, {book.out_of_order} out of order"
    return f"{book.sent} frames sent, {book.results} answered, {faults}"


def result_lines(outcomes: Iterable[Outcome]) -> bytes:
    """Write outcomes as JSON lines, in the order given."""
    return b"".join(msgspec.json.encode(_line(outcome)) + b"\n" for outcome in outcomes)


def _line(outcome: Outcome) -> dict[str, Any]:
    line: dict[str, Any] = {
        "request_id": outcome.request_id,
        "stream": (outcome.key or b"").decode(errors="replace"),
        "source": outcome.source,
        "model": outcome.model,
        "version": outcome.version,
        "epoch": outcome.epoch,
    }
    if isinstance(outcome, Result):
        return {**line, "status": outcome.status, "output": outcome.output, "timings": outcome.timings}
    return {**line, "status": "dead_letter", "error": outcome.error}


def summarise(books: Books, scoreboard: Scoreboard, kill: Kill | None, run: Mapping[str, Any]) -> dict[str, Any]:
    """Gather the ledger and the measurements. `run` is what the caller knows of the run; times are seconds."""
    arrivals = scoreboard.arrivals()
    pause = kill.pause(arrivals) if kill else None
    usual = kill.usual_pause(arrivals) if kill else None
    return {
        **run,
        "clean": books.is_clean,
        "findings": dict(books.findings),
        "streams": [asdict(book) for book in books.streams],
        "latency_p50_seconds": _rounded(scoreboard.overall_percentile(50)),
        "latency_p99_seconds": _rounded(scoreboard.overall_percentile(99)),
        "mean_batch_size": _rounded(scoreboard.mean_batch_size()),
        "kill": {
            "pid": kill.pid if kill else None,
            "longest_pause_seconds": _rounded(pause.seconds if pause else None),
            "partition": pause.partition if pause else None,
            "stream": scoreboard.stream_of(pause.partition) if pause else "",
            "longest_pause_before_seconds": _rounded(usual.seconds if usual else None),
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
