"""Where the moments of the run are shown: on a live page, or as lines."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live

from headrace.demo.live_view import Moment, live_page, plain_line

_LINE_SECONDS = 5.0


class Screen(Protocol):
    """A context manager that is shown moments; they come several times a second."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""
        ...

    def show(self, moment: Moment) -> None:
        """Show a moment."""
        ...

    def say(self, message: str) -> None:
        """Print a line that stays."""
        ...


class LiveScreen:
    """Redraws one page on a terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, moment: Moment) -> None:
        """Redraw the page."""
        self._live.update(live_page(moment), refresh=True)

    def say(self, message: str) -> None:
        """Print above the page."""
        self._live.console.print(message)


class PlainScreen:
    """Prints a line every five seconds: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_line_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to give back."""

    def show(self, moment: Moment) -> None:
        """Print the moment when the last line is old enough."""
        if moment.elapsed_seconds >= self._next_line_at:
            self._next_line_at = moment.elapsed_seconds + _LINE_SECONDS
            self._console.print(plain_line(moment), soft_wrap=True, highlight=False)

    def say(self, message: str) -> None:
        """Print a line."""
        self._console.print(message, soft_wrap=True, highlight=False)
