"""The sent-file: one JSON line per acknowledged request, and the offsets-file that says where an audit begins."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from producers.audit.ledger import Offsets, SentRecord
from schemas.errors import ConfigurationError
from schemas.records import Position

_MAX_LINE_BYTES = 1 << 20


class _Line(msgspec.Struct, omit_defaults=True):
    id: str
    topic: str
    partition: int
    offset: int
    key: str | None = None


def format_sent_line(request_id: str, position: Position, key: str | None = None) -> bytes:
    """Spell one acknowledged request as a line of a sent-file."""
    line = _Line(request_id, position.topic, position.partition, position.offset, key)
    return msgspec.json.encode(line) + b"\n"


def read_sent_file(path: Path) -> Iterator[SentRecord]:
    """Read a sent-file. Raises ConfigurationError naming the file and line; a last line cut short is passed over."""
    decoder = msgspec.json.Decoder(_Line)
    try:
        with path.open("rb") as file:
            number = 0
            while text := file.readline(_MAX_LINE_BYTES):
                number += 1
                try:
                    line = decoder.decode(text)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    if not text.endswith(b"\n"):
                        return  # the publisher was killed in the middle of it
                    raise ConfigurationError(f"sent-file {path}, line {number}: {error}") from None
                yield SentRecord(Position(line.topic, line.partition, line.offset), line.id, line.key)
    except OSError as error:
        raise ConfigurationError(f"sent-file {path}: {error.strerror}") from None


def write_offsets_file(path: Path, offsets: Offsets) -> None:
    """Keep offsets for a later audit to begin at. Raises ConfigurationError when the file cannot be written."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(topics)) + b"\n")
    except OSError as error:
        raise ConfigurationError(f"offsets-file {path}: {error.strerror}") from None


def read_offsets_file(path: Path) -> dict[tuple[str, int], int]:
    """Read an offsets-file. Raises ConfigurationError."""
    try:
        topics = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[int, int]])
    except OSError as error:
        raise ConfigurationError(f"offsets-file {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"offsets-file {path}: {error}") from None
    return {(topic, partition): offset for topic, found in topics.items() for partition, offset in found.items()}
