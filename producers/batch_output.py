"""What a batch job leaves behind: its answers in input order, and the rows without one in a file beside them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec

from producers.job_journal import Answer
from schemas.errors import ConfigurationError
from schemas.records import Status

_PARQUET_GROUP_ROWS = 10_000


class AnswerWriter(Protocol):
    """Takes the answers of ok rows, in input order."""

    def write(self, answer: Answer) -> None:
        """Add one row."""

    def close(self) -> None:
        """Write what is still held."""


def rejects_path(output: Path) -> Path:
    """Name the file for expired, rejected and unreadable rows."""
    return output.with_name(output.stem + ".rejects.jsonl")


def check_output(output: Path, beside: Sequence[Path], source: Path) -> None:
    """Raise ConfigurationError when the output cannot be written there or in that format.

    Neither it nor a file written `beside` it may be the input: by any path or link, that would be the end of it.
    """
    if output.suffix.lower() not in (".jsonl", ".ndjson", ".parquet"):
        raise ConfigurationError(f"output {output}: answers are written to .jsonl or .parquet")
    if not output.parent.is_dir():
        raise ConfigurationError(f"output {output}: {output.parent} is not a folder")
    for path in (output, *beside):
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigurationError(f"output {output}: {path} is the input {source}; name another output")


def write_output(answers: Iterable[Answer], output: Path) -> None:
    """Write both files under temporary names, then rename them: a reader sees whole files or none."""
    rejects = rejects_path(output)
    with _renamed(rejects) as rejected, _renamed(output) as accepted:
        writer: AnswerWriter = (
            _ParquetWriter(accepted) if output.suffix.lower() == ".parquet" else _LineWriter(accepted)
        )
        with closing(writer):
            for answer in answers:
                if answer.status == Status.OK:
                    writer.write(answer)
                else:
                    rejected.write(msgspec.json.encode(_reject(answer)) + b"\n")


@contextmanager
def _renamed(path: Path) -> Iterator[BinaryIO]:
    temporary = path.with_name(f".{path.name}.part")
    with ExitStack() as cleanup:
        file = cleanup.enter_context(temporary.open("wb"))
        cleanup.callback(lambda: temporary.unlink(missing_ok=True))
        yield file
        file.flush()
        os.fsync(file.fileno())
        temporary.replace(path)


def _reject(answer: Answer) -> dict[str, Any]:
    return {
        "row": answer.row,
        "id": answer.label,
        "status": answer.status,
        "code": answer.code,
        "message": answer.message,
        "model": answer.model,
        "version": answer.version,
    }


class _LineWriter:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, answer: Answer) -> None:
        line = {
            "row": answer.row,
            "id": answer.label,
            "output": answer.output,
            "model": answer.model,
            "version": answer.version,
            "epoch": answer.epoch,
        }
        self._file.write(msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        pass


class _ParquetWriter:
    """`output` is a column of JSON text: its shape is the model's business and may change with its version."""

    def __init__(self, file: BinaryIO) -> None:
        import pyarrow  # noqa: PLC0415 - only this kind of file needs it
        from pyarrow import parquet  # noqa: PLC0415 - only this kind of file needs it

        self._pyarrow = pyarrow
        text = pyarrow.string()
        self._schema = pyarrow.schema(
            [
                ("row", pyarrow.int64()),
                ("id", text),
                ("output", text),
                ("model", text),
                ("version", text),
                ("epoch", pyarrow.int64()),
            ]
        )
        self._writer = parquet.ParquetWriter(file, self._schema)
        self._rows: list[dict[str, Any]] = []

    def write(self, answer: Answer) -> None:
        self._rows.append(
            {
                "row": answer.row,
                "id": answer.label,
                "output": bytes(answer.output).decode(),
                "model": answer.model,
                "version": answer.version,
                "epoch": answer.epoch,
            }
        )
        if len(self._rows) >= _PARQUET_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._pyarrow.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []

    def close(self) -> None:
        self._flush()
        self._writer.close()
