"""Options that several commands share, so that each is called and explained the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[Path | None, typer.Option(help="Configuration file.")]
PayloadColumn = Annotated[str | None, typer.Option(help="Parquet column to send instead of the whole row.")]
