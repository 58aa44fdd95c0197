"""The journal of a batch job: one append-only file of JSON lines that says what was sent and answered."""

import fcntl
import os
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from producers.publish_frontier import Offsets, PublishMark
from schemas.errors import ConfigurationError

OffsetList = list[tuple[str, int, int]]
_FORMAT = 1
NULL = msgspec.Raw(b"null")


def pack_offsets(offsets: Offsets) -> OffsetList:
    """Spell offsets as a list, since a JSON key cannot be a pair."""
    return [(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]


def unpack_offsets(offsets: OffsetList) -> Offsets:
    """Undo `pack_offsets`."""
    return {(topic, partition): offset for topic, partition, offset in offsets}


class JobHeader(msgspec.Struct, frozen=True, tag="job"):
    """The first line: what the job is, and where its topics ended before its first request."""

    job_id: str
    input: str
    fingerprint: str
    rows: int
    topics: tuple[str, str, str]
    """Requests, results, dead letters."""
    request_starts: OffsetList
    outcome_starts: OffsetList
    format: int = _FORMAT


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """The outcome of one row. `code` is empty for an ok one; `model`, `version` and `epoch` say who answered."""

    row: int
    label: str
    status: str
    output: msgspec.Raw = NULL
    model: str = ""
    version: str = ""
    epoch: int = 0
    code: str = ""
    message: str = ""


class Mark(msgspec.Struct, frozen=True, tag="mark"):
    """A checkpoint: see PublishMark; `outcomes` is where reading outcomes goes on."""

    settled: int
    sent: int
    requests: OffsetList
    outcomes: OffsetList


Line = JobHeader | Answer | Mark
_decoder = msgspec.json.Decoder(Line)


@dataclass
class JournalState:
    """What a journal says. `places` maps a row to the byte where its answer begins, -1 for none."""

    header: JobHeader
    places: "array[int]"
    marks: list[PublishMark] = field(default_factory=list)
    outcomes: Offsets = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, line: Line, place: int) -> None:
        """Take in one more line; a second answer of a row is ignored."""
        if isinstance(line, Answer):
            if 0 <= line.row < len(self.places) and self.places[line.row] < 0:
                self.places[line.row] = place
                self.counts[line.status] = self.counts.get(line.status, 0) + 1
        elif isinstance(line, Mark):
            self.marks.append(PublishMark(line.settled, line.sent, unpack_offsets(line.requests)))
            self.outcomes = unpack_offsets(line.outcomes)

    @property
    def answered(self) -> int:
        """Rows with an answer."""
        return sum(self.counts.values())

    def is_answered(self, row: int) -> bool:
        """Whether a row needs nothing more."""
        return self.places[row] >= 0


def new_state(header: JobHeader) -> JournalState:
    """Start the state of a job from its header."""
    return JournalState(header, array("q", [-1]) * header.rows, outcomes=unpack_offsets(header.outcome_starts))


def _decode(text: bytes) -> Line | None:
    try:
        return _decoder.decode(text) if text.endswith(b"\n") else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def read_journal(file: BinaryIO, path: Path) -> tuple[JournalState | None, int]:
    """Read a journal; return its state, None when it has no whole first line, and the length of its sound part.

    What a crash leaves behind the last mark is dropped from the first torn line on: it was never relied on. Raises
    ConfigurationError for damage before a mark.
    """
    state: JournalState | None = None
    place = 0
    file.seek(0)
    for text in file:
        line = _decode(text)
        if line is None:
            if any(isinstance(_decode(later), Mark) for later in file):
                raise ConfigurationError(f"job journal {path}: damaged at byte {place}; use --restart to begin anew")
            break
        if state is None:
            if not isinstance(line, JobHeader) or line.format != _FORMAT:
                raise ConfigurationError(f"{path} is not a job journal of this version; use --restart to begin anew")
            state = new_state(line)
        state.add(line, place)
        place += len(text)
    return state, place


class JobJournal:
    """Owns the file of one job: locked against a second run, appended to, synced at each mark."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._length = 0
        self._state: JournalState | None = None

    def open(self, *, restart: bool = False) -> Self:
        """Open or create the file and read what is there, or drop it unread.

        Raises ConfigurationError when another run holds it or it is damaged.
        """
        try:
            file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        except OSError as error:
            raise ConfigurationError(f"job journal {self._path}: {error.strerror}") from None
        self._file = file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not restart:
                self._state, self._length = read_journal(file, self._path)
        except BlockingIOError:
            self.close()
            raise ConfigurationError(f"job journal {self._path} is in use: the same job is running") from None
        except ConfigurationError:
            self.close()
            raise
        file.truncate(self._length)
        file.seek(self._length)
        return self

    @property
    def state(self) -> JournalState | None:
        """What the journal says, None for a new one."""
        return self._state

    def begin(self, header: JobHeader) -> JournalState:
        """Begin a new job, dropping what the file held."""
        self._rewind()
        self._state = new_state(header)
        self._append(header)
        self.sync()
        return self._state

    def _rewind(self) -> None:
        file = self._opened()
        file.seek(0)
        file.truncate(0)
        self._length = 0

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ConfigurationError(f"job journal {self._path} is not open")
        return self._file

    def _append(self, line: Line) -> int:
        text = msgspec.json.encode(line) + b"\n"
        self._opened().write(text)
        place, self._length = self._length, self._length + len(text)
        return place

    def answer(self, answer: Answer) -> None:
        """Append the answer of a row; it is safe on disk after the next mark."""
        place = self._append(answer)
        if self._state is not None:
            self._state.add(answer, place)

    def mark(self, mark: PublishMark, outcomes: Offsets) -> None:
        """Append a checkpoint and make everything so far survive a power cut.

        A mark never claims more than the answers before it: both go through the one file, in order.
        """
        self._append(Mark(mark.settled, mark.sent, pack_offsets(mark.positions), pack_offsets(outcomes)))
        self.sync()

    def sync(self) -> None:
        """Flush to the disk."""
        file = self._opened()
        file.flush()
        os.fsync(file.fileno())

    def read_answer(self, place: int) -> Answer:
        """Read the answer that begins at `place`. Appending goes on at the end afterwards."""
        file = self._opened()
        file.seek(place)
        line = _decoder.decode(file.readline())
        file.seek(self._length)
        if not isinstance(line, Answer):
            raise ConfigurationError(f"job journal {self._path}: damaged at byte {place}")
        return line

    def close(self) -> None:
        """Let go of the file and its lock."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def remove(self) -> None:
        """Delete the file of a finished job."""
        self._path.unlink(missing_ok=True)
        self.close()
