"""The `headrace` command: one subcommand a file, each in `<name>_command.py` with a `register(app)`.

Command modules import nothing heavy at their top, so that `--help` needs neither torch nor Kafka.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

import typer

from headrace.cli.exit_codes import ExitCode, exit_code_for
from schemas.errors import PipelineError

COMMANDS = (
    "demo",
    "up",
    "topics",
    "models",
    "precision",
    "profile",
    "worker",
    "publish",
    "results",
    "batch",
    "audit",
    "dead_letters",
    "schemas",
)
"""In the order of `headrace --help`. A new subcommand adds its name here and its module beside this one."""


def build_app(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with these subcommands."""
    new_app = typer.Typer(
        name="headrace",
        help="Kafka-driven batch and stream inference for PyTorch models, exactly once.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    # Without a callback, typer turns an app of a single command into that command.
    new_app.callback()(_headrace)
    for name in commands:
        import_module(f"headrace.cli.{name}_command").register(new_app)
    return new_app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default the process's own, and return its exit code: see :class:`ExitCode`.

    An error of ours becomes one line on stderr; anything else is a bug and keeps its traceback.
    """
    try:
        app(args=None if argv is None else list(argv), prog_name="headrace")
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else ExitCode.OK
    except PipelineError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return exit_code_for(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _headrace() -> None:
    """Kafka-driven batch and stream inference for PyTorch models, exactly once."""


app = build_app()
