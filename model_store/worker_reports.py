"""What a command and the workers tell each other about a switch: a candidate to prepare, and a report by each worker.

Both lie in Redis, where anybody may have written them: they are decoded within bounds, and unknown fields are passed
over, so that workers of two releases can stand beside each other.
"""

import re
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

import msgspec

from model_store.shadow import Shadow
from model_store.timeline import MAX_BY_CHARS, MAX_NUMBER, MAX_SPLIT
from schemas.errors import InvalidPointerError, UnsafeNameError, scrub
from schemas.names import NAME_PATTERN

CANDIDATE_TTL_SECONDS = 30.0
"""How long workers keep a candidate after the command that renews it has gone."""
REPORT_TTL_SECONDS = 6.0
"""How long a worker counts as alive after its last report."""
REPORT_EVERY_SECONDS = 1.0
"""How often a worker reports while nothing changes; a change is reported at once."""
MAX_CANDIDATE_BYTES = 4 * 1024
MAX_REPORT_BYTES = 16 * 1024
MAX_REASON_CHARS = 300
MAX_HOST_CHARS = 255
_MAX_VERSIONS = 64
_WORKER_ID_PATTERN = r"^[A-Za-z0-9._-]{1,320}\Z"
_WORKER_ID = re.compile(_WORKER_ID_PATTERN)

Version = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
Versions = Annotated[tuple[Version, ...], msgspec.Meta(max_length=_MAX_VERSIONS)]
CandidateId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}\Z")]
Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]


@dataclass(frozen=True)
class Candidate:
    """Versions that every worker of the model loads, warms and checks beside what it serves."""

    id: CandidateId
    """16 hex digits, new for every preparation."""
    versions: Annotated[tuple[Version, ...], msgspec.Meta(min_length=1, max_length=MAX_SPLIT)]
    by: Annotated[str, msgspec.Meta(max_length=MAX_BY_CHARS)]
    """Who asked for it, user@host."""
    at_ms: Number
    """When, epoch ms."""


@dataclass(frozen=True)
class Orders:
    """What workers are to hold loaded beside what answers."""

    candidate: Candidate | None = None
    shadow: Shadow | None = None


@dataclass(frozen=True)
class Refusal:
    """A worker's no to a candidate. It holds until the candidate is withdrawn."""

    candidate: CandidateId
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)]
    """For a person; :meth:`WorkerReport.refusing` cuts it to one line that fits."""


@dataclass(frozen=True)
class ShadowReport:
    """How far a worker is with the version that it is to run for nobody."""

    version: Version
    state: Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)]
    """For a person: `runs`, `loading`, or why it does not run; :func:`clean_text` makes it fit."""


@dataclass(frozen=True)
class WorkerReport:
    """What one group member says about itself."""

    worker: Annotated[str, msgspec.Meta(pattern=_WORKER_ID_PATTERN)]
    """See :func:`name_worker`."""
    slot: Number
    host: Annotated[str, msgspec.Meta(max_length=MAX_HOST_CHARS)]
    pid: Number
    epoch: Number
    """The newest epoch of the timeline that it has adopted and acts on; 0 for none."""
    serving: Versions = ()
    """Versions that its records meet now."""
    warm: Versions = ()
    """Versions that are loaded and could take a batch at once, those in `serving` included."""
    preparing: CandidateId | None = None
    """The candidate that it is loading."""
    ready: CandidateId | None = None
    """The candidate that is loaded, warmed and checked."""
    refused: Refusal | None = None
    at_ms: Number = 0
    """When it was written, epoch ms of the worker's clock."""
    shadow: ShadowReport | None = None

    def refusing(self, candidate_id: str, reason: str) -> "WorkerReport":
        """Return this report with a refusal in place of any progress. The reason is made fit to show."""
        return replace(self, preparing=None, ready=None, refused=Refusal(candidate_id, clean_text(reason)))


@dataclass(frozen=True)
class Roster:
    """The workers that serve a model: what those that are alive report, by worker id."""

    reports: tuple[WorkerReport, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Workers whose report is there and not sound."""


def name_worker(group: str, name: str, slot: int) -> str:
    """Return the id of a member among all that may serve a model: consumer group, worker name and slot."""
    return f"{group}.{name}-{slot}"


def is_worker_id(text: str) -> bool:
    """Whether this may be the id of a worker: 1 to 320 letters, digits, dots, dashes and underscores."""
    return _WORKER_ID.match(text) is not None


def check_worker_id(worker: str) -> str:
    """Return the id of a worker when it is one. Raises UnsafeNameError."""
    if not is_worker_id(worker):
        raise UnsafeNameError(f"worker id {worker[:80]!r}: allowed are 1 to 320 letters, digits, '.', '-' and '_'")
    return worker


def clean_text(text: str, limit: int = MAX_REASON_CHARS) -> str:
    """Return foreign text as one printable line of at most `limit` characters."""
    cleaned = "".join(mark if mark.isprintable() else " " for mark in scrub(text, limit=4 * limit))
    short = " ".join(cleaned.split())
    return short if len(short) <= limit else short[: limit - 1] + "…"


def encode_candidate(candidate: Candidate) -> bytes:
    """Write a candidate as JSON."""
    return msgspec.json.encode(candidate)


def encode_report(report: WorkerReport) -> bytes:
    """Write a report as JSON."""
    return msgspec.json.encode(report)


def decode_candidate(data: bytes) -> Candidate:
    """Read a candidate that anybody may have written. Raises InvalidPointerError."""
    candidate = _decode(_CANDIDATES, data, MAX_CANDIDATE_BYTES, "candidate")
    if not candidate.by.isprintable():
        raise InvalidPointerError("not a candidate: by is not printable")
    return candidate


def decode_report(data: bytes) -> WorkerReport:
    """Read a report that anybody may have written. Raises InvalidPointerError."""
    report = _decode(_REPORTS, data, MAX_REPORT_BYTES, "worker report")
    reason = report.refused.reason if report.refused is not None else ""
    state = report.shadow.state if report.shadow is not None else ""
    if not (report.host + reason + state).isprintable():
        raise InvalidPointerError("not a worker report: host, reason or state is not printable")
    return report


_CANDIDATES = msgspec.json.Decoder(Candidate)
_REPORTS = msgspec.json.Decoder(WorkerReport)
_Value = TypeVar("_Value")


def _decode(decoder: "msgspec.json.Decoder[_Value]", data: bytes, max_bytes: int, what: str) -> _Value:
    if len(data) > max_bytes:
        raise InvalidPointerError(f"a {what} of {len(data)} bytes: at most {max_bytes} are allowed")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidPointerError(f"not a {what}: {scrub(str(error), limit=200)}") from None
