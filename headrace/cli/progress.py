"""Progress on stderr: one live line on a terminal, plain lines everywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show_progress() -> Iterator[Callable[[str], None]]:
    """A function that shows what is going on now. Stdout stays free for the command's answer."""
    if not sys.stderr.isatty():
        yield _print_line
        return
    from rich.console import Console  # noqa: PLC0415 only a terminal needs it

    console = Console(stderr=True)
    with console.status("") as status:
        yield status.update


def _print_line(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
