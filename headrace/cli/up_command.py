"""`headrace up`: a real Kafka and a real Valkey on this machine, until Ctrl-C."""

import shlex
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.interruption import as_ctrl_c
from headrace.cli.progress import show_progress

if TYPE_CHECKING:
    from headrace.local_stack.stack import LocalStack

CHECK_SECONDS = 0.5

DataDir = Annotated[Path | None, typer.Option(help="Where topics and keys are kept; by default in your cache folder.")]
KafkaPort = Annotated[
    int | None, typer.Option(min=1, max=65_535, help="Kafka's port; by default last time's or a free one.")
]
RedisPort = Annotated[
    int | None, typer.Option(min=1, max=65_535, help="Valkey's port; by default last time's or a free one.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete the data of an earlier stack first.")]


def register(app: typer.Typer) -> None:
    """Add `up` to the command line."""
    app.command(name="up")(up)


def up(
    data_dir: DataDir = None, kafka_port: KafkaPort = None, redis_port: RedisPort = None, fresh: Fresh = False
) -> None:
    """Start a real Apache Kafka and a real Valkey on this machine; Ctrl-C stops them.

    Topics and keys stay for the next start. Prints the variables that point other `headrace` commands here.
    """
    from headrace.local_stack.stack import (  # noqa: PLC0415 `headrace --help` must not pay for it
        LocalStack,
        default_data_dir,
    )

    where = data_dir or default_data_dir()
    with as_ctrl_c(signal.SIGTERM), ExitStack() as cleanup:
        with show_progress() as say:
            stack = LocalStack(where, kafka_port=kafka_port, redis_port=redis_port, fresh=fresh, on_progress=say)
            cleanup.callback(stack.stop)
            stack.start()
        last_words = _stay_up(stack)
    if last_words is not None:
        print(f"headrace: {last_words}", file=sys.stderr)
        raise typer.Exit(ExitCode.FAILED)


def _announce(stack: "LocalStack") -> None:
    for name, value in stack.environment().items():
        print(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    print(f"The local stack is up; its data are in {stack.data_dir}. Ctrl-C stops it.", file=sys.stderr, flush=True)


def _stay_up(stack: "LocalStack") -> str | None:
    """Say where the stack is and wait: until a server dies, returning its last words, or until Ctrl-C."""
    try:
        # Inside the try: whoever reads the addresses may ask us to stop in the very next moment.
        _announce(stack)
        while True:
            last_words = stack.find_dead_server()
            if last_words is not None:
                return last_words
            time.sleep(CHECK_SECONDS)
    except KeyboardInterrupt:
        return None
