"""Rows of files: JSON lines, text lines, .npy arrays and Parquet tables. Each row is one item."""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from producers.payloads import array_payload, json_payload
from producers.sources.item import Item, ItemError, Source
from schemas.content_sniffing import sniff_content_type
from schemas.errors import ConfigurationError, InvalidInputError
from schemas.records import JSON, NPY, TEXT

_PARQUET_BATCH_ROWS = 256


@dataclass(frozen=True)
class RowOptions:
    """How rows become payloads."""

    limit_bytes: int
    """A longer line is an ItemError and is never held whole."""
    id_column: str | None = None
    """JSON lines and Parquet: the field whose value labels a row; without it the row number does."""
    payload_column: str | None = None
    """Parquet: send only this column (bytes and text as they are); without it a row is one JSON object."""


def read_rows(path: Path, options: RowOptions) -> Source:
    """Yield the rows of a file by its suffix: .jsonl, .ndjson, .txt, .npy or .parquet.

    Raises ConfigurationError when the file as a whole cannot be read, or has no such columns as the options name; a
    faulty row is an ItemError.
    """
    reader = _reader(path)
    _check_columns(path, options)
    return reader(path, options)


def count_rows(path: Path, options: RowOptions) -> int:
    """Count what `read_rows` will yield. Raises as it does."""
    _reader(path)
    _check_columns(path, options)
    if path.suffix.lower() == ".npy":
        return len(_open_npy(path))
    if path.suffix.lower() == ".parquet":
        return int(_open_parquet(path).metadata.num_rows)
    return sum(1 for _ in _lines(path, options.limit_bytes))


def _reader(path: Path) -> Callable[[Path, RowOptions], Source]:
    readers = {
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
        ".txt": _read_text_lines,
        ".npy": _read_npy,
        ".parquet": _read_parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigurationError(f"{path}: rows are read from {', '.join(readers)}")
    if not path.is_file():
        raise ConfigurationError(f"{path} is not a file")
    return reader


def _check_columns(path: Path, options: RowOptions) -> None:
    """Raise ConfigurationError for a column that this kind of file cannot have, or that this file has not."""
    kind = path.suffix.lower()
    for option, column, kinds in (
        ("id column", options.id_column, (".jsonl", ".ndjson", ".parquet")),
        ("payload column", options.payload_column, (".parquet",)),
    ):
        if column is None:
            continue
        if kind not in kinds:
            raise ConfigurationError(f"{path}: {option} {column}: only {', '.join(kinds)} files can have one")
        names = _column_names(path, options)
        if names is not None and column not in names:
            raise ConfigurationError(f"{path}: no column {column}; there are {', '.join(names)}")


def _column_names(path: Path, options: RowOptions) -> list[str] | None:
    """The columns of a table, or the fields of the first row of JSON lines; None when that one has none to tell."""
    if path.suffix.lower() == ".parquet":
        with _open_parquet(path) as table:
            return list(table.schema_arrow.names)
    try:
        first = msgspec.json.decode(next(_lines(path, options.limit_bytes), None) or b"null")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return list(first) if isinstance(first, dict) else []


def _lines(path: Path, limit_bytes: int) -> Iterator[bytes | None]:
    """Yield lines without their ends, skipping blank ones; None stands for a line above the limit."""
    with path.open("rb") as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:
            file.seek(0)
        while line := file.readline(limit_bytes + 2):
            if line.endswith(b"\n") or len(line) <= limit_bytes:
                text = line.strip()
                if text:
                    yield text if len(text) <= limit_bytes else None
                continue
            while line and not line.endswith(b"\n"):
                line = file.readline(limit_bytes + 2)
            yield None


def _read_json_lines(path: Path, options: RowOptions) -> Source:
    for sequence, line in enumerate(_lines(path, options.limit_bytes)):
        if line is None:
            yield ItemError(sequence, str(sequence), f"line longer than {options.limit_bytes} bytes")
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield ItemError(sequence, str(sequence), f"not a JSON value: {error}")
            continue
        fields = value if isinstance(value, dict) else {}
        yield Item(sequence, line, JSON, _label(sequence, fields, options))


def _read_text_lines(path: Path, options: RowOptions) -> Source:
    for sequence, line in enumerate(_lines(path, options.limit_bytes)):
        if line is None:
            yield ItemError(sequence, str(sequence), f"line longer than {options.limit_bytes} bytes")
        else:
            yield Item(sequence, line, TEXT, str(sequence))


def _open_npy(path: Path) -> Any:
    from numpy.lib import format as npy  # noqa: PLC0415 - only this kind of file needs it

    try:
        array = npy.open_memmap(str(path), mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise ConfigurationError(f"{path}: not a .npy file without objects: {error}") from None
    if array.ndim == 0:
        raise ConfigurationError(f"{path}: an array with at least one axis is needed; rows run along the first")
    return array


def _read_npy(path: Path, options: RowOptions) -> Source:
    import numpy  # noqa: PLC0415 - only this kind of file needs it

    for sequence, row in enumerate(_open_npy(path)):
        payload = array_payload(numpy.asarray(row))
        if len(payload) > options.limit_bytes:
            yield ItemError(sequence, str(sequence), f"row of {len(payload)} bytes; at most {options.limit_bytes}")
        else:
            yield Item(sequence, payload, NPY, str(sequence))


def _open_parquet(path: Path) -> Any:
    from pyarrow import ArrowException, parquet  # noqa: PLC0415 - only this kind of file needs it

    try:
        return parquet.ParquetFile(path)
    except (OSError, ArrowException) as error:
        raise ConfigurationError(f"{path}: not a Parquet file: {error}") from None


def _read_parquet(path: Path, options: RowOptions) -> Source:
    with _open_parquet(path) as table:
        sequence = 0
        for batch in table.iter_batches(batch_size=_PARQUET_BATCH_ROWS):
            for row in batch.to_pylist():
                yield _parquet_item(sequence, row, options)
                sequence += 1


def _parquet_item(sequence: int, row: dict[str, Any], options: RowOptions) -> Item | ItemError:
    label = _label(sequence, row, options)
    value = row if options.payload_column is None else row[options.payload_column]
    try:
        if isinstance(value, bytes):
            payload, content_type = value, sniff_content_type(value)
        elif options.payload_column is not None and isinstance(value, str):
            payload, content_type = value.encode(), TEXT
        else:
            payload, content_type = json_payload(value), JSON
    except InvalidInputError as error:
        return ItemError(sequence, label, str(error))
    if len(payload) > options.limit_bytes:
        return ItemError(sequence, label, f"row of {len(payload)} bytes; at most {options.limit_bytes}")
    return Item(sequence, payload, content_type, label)


def _label(sequence: int, fields: dict[str, Any], options: RowOptions) -> str:
    value = fields.get(options.id_column) if options.id_column is not None else None
    return str(sequence) if value is None else str(value)
