"""`headrace demo`: the whole pipeline on this machine, with pictures and a kill."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("demo")(demo)


def demo(
    seconds: Annotated[float, typer.Option(min=10.0, max=3600.0, help="How long the streams run.")] = 40.0,
    out: Annotated[Path, typer.Option(file_okay=False, help="Where the pictures and results go.")] = Path("out/demo"),
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a live page.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep Kafka's data for a later `headrace up`.")] = False,
) -> None:
    """Stream four cameras through a local Kafka and a two-member worker, kill one member, and settle the books.

    Needs nothing that is running. Exits 1 when a request is missing, doubled or out of order.
    """
    from rich.console import Console  # noqa: PLC0415 - keeps --help instant

    from headrace.demo.screen import LiveScreen, PlainScreen  # noqa: PLC0415
    from headrace.demo.show import DemoOptions, run_demo  # noqa: PLC0415
    from headrace.local_stack.stack_directory import user_cache_dir  # noqa: PLC0415

    console = Console()
    screen = PlainScreen(console) if plain or not console.is_terminal else LiveScreen(console)
    options = DemoOptions(seconds=seconds, out=out, home=user_cache_dir() / "demo", keep=keep)
    try:
        clean = run_demo(options, console, screen)
    except KeyboardInterrupt:
        console.print("interrupted: everything is stopped")
        raise typer.Exit(130) from None
    if not clean:
        console.print("[bold red]The ledger is not clean.[/]")
        raise typer.Exit(1)
