"""`headrace schemas`: the wire contract as documents for other languages and tools."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_DIR = Path("docs/contract")

Folder = Annotated[Path, typer.Argument(help="Where to write; the folder is made when it is missing.")]


def register(app: typer.Typer) -> None:
    """Add `schemas` to the command line."""
    commands = typer.Typer(help="The wire contract as JSON Schemas and AsyncAPI.", no_args_is_help=True)
    # Without a callback, typer turns a group of a single command into that command.
    commands.callback()(_schemas)
    commands.command(name="write")(write)
    app.add_typer(commands, name="schemas")


def write(folder: Folder = DEFAULT_DIR) -> None:
    """Write the JSON Schemas and the AsyncAPI document of this version."""
    from schemas.documents import write_documents  # noqa: PLC0415 - keeps --help instant

    for path in write_documents(folder):
        typer.echo(path)


def _schemas() -> None:
    """The wire contract as JSON Schemas and AsyncAPI."""
