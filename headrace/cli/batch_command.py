"""`headrace batch`: answer every row of an input, and write the answers in its order."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import ConfigFile, PayloadColumn
from schemas.configuration import load_settings

if TYPE_CHECKING:
    from producers.batch_progress import Progress, Summary


PLAIN_PROGRESS_SECONDS = 10.0

Input = Annotated[Path, typer.Argument(metavar="INPUT", help="A folder of images, or .jsonl, .txt, .npy, .parquet.")]
Output = Annotated[Path, typer.Argument(metavar="OUTPUT", help="The answers: .jsonl or .parquet.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("batch")(batch)


def batch(  # noqa: PLR0913 - one parameter per option
    source: Input,
    output: Output,
    *,
    config: ConfigFile = None,
    model: Annotated[str | None, typer.Option(help="Refuse answers of any other model.")] = None,
    topic: Annotated[
        str | None, typer.Option(help="Request topic; the least urgent of the settings if not given.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Field that labels a row in the output.")] = None,
    column: PayloadColumn = None,
    window: Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows in flight at most.")] = 1000,
    deadline_ms: Annotated[int | None, typer.Option(min=1, help="Milliseconds that a row may take.")] = None,
    stall_timeout: Annotated[
        float | None, typer.Option(min=0.1, help="Give up after so many seconds without an answer.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart/--resume", help="Begin anew instead of going on.")] = False,
) -> None:
    """Run a batch job, or go on with the one that was interrupted: rows that were sent are not sent again.

    Rows without an answer are listed in OUTPUT's name with .rejects.jsonl; the exit code is then 1.
    """
    from producers.batch_job import BatchJob  # noqa: PLC0415 - keeps --help instant
    from producers.job_options import JobOptions  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    options = JobOptions(
        input=source,
        output=output,
        topic=topic,
        model=model,
        id_column=id_column,
        payload_column=column,
        window=window,
        deadline_seconds=None if deadline_ms is None else deadline_ms / 1000,
        stall_seconds=stall_timeout,
        restart=restart,
    )
    _run(lambda on_progress: BatchJob(settings, options, on_progress=on_progress).run())


def _run(job: "Callable[[Callable[[Progress], None]], Summary]") -> None:
    """Show the job's progress, print what came of it, and leave with the exit code that it deserves."""
    try:
        with _shown() as on_progress:
            summary = job(on_progress)
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again (without --restart) to go on", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    typer.echo(
        f"{summary.output}: {summary.rows} rows, {summary.ok} ok, {summary.expired} expired,"
        f" {summary.rejected} rejected in {summary.seconds:.1f} s ({summary.rows_per_second:.0f} rows/s)"
    )
    if summary.failed:
        typer.echo(f"rows without an answer: {summary.rejects}", err=True)
        raise typer.Exit(ExitCode.FAILED)


def _print_now_and_then(clock: Callable[[], float]) -> "Callable[[Progress], None]":
    """A line every ten seconds: a job that nobody answers says so in a log too."""
    due_at = clock() + PLAIN_PROGRESS_SECONDS

    def show(progress: "Progress") -> None:
        nonlocal due_at
        if clock() < due_at:
            return
        due_at = clock() + PLAIN_PROGRESS_SECONDS
        waiting = "" if progress.answered else "; does a worker serve the topic?"
        typer.echo(f"{progress.answered} of {progress.rows} rows, {progress.in_flight} in flight{waiting}", err=True)

    return show


@contextmanager
def _shown() -> "Iterator[Callable[[Progress], None]]":
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_now_and_then(time.monotonic)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("waiting for answers")

        def show(progress: "Progress") -> None:
            left = "" if progress.eta_seconds is None else f", {progress.eta_seconds:.0f} s left"
            bar.update(
                task,
                total=progress.rows,
                completed=progress.answered,
                description=f"{progress.rows_per_second:.0f} rows/s, {progress.in_flight} in flight{left}",
            )

        yield show
