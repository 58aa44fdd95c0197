"""The ids of a job's requests, and the answers that their outcomes become."""

import msgspec

from producers.batch_progress import REJECTED, UNREADABLE
from producers.job_journal import NULL, Answer
from producers.outcomes import Outcome
from producers.sources.item import ItemError
from schemas.records import Result, Status


def request_id_of(job_id: str, row: int) -> str:
    """Name the request of a row: the same on every run of the job."""
    return f"{job_id}-{row}"


def parse_row(job_id: str, request_id: str | bytes | None) -> int | None:
    """Tell the row that a request id belongs to; None when it is not of this job."""
    if isinstance(request_id, bytes):
        request_id = request_id.decode(errors="replace")
    prefix = f"{job_id}-"
    if request_id is None or not request_id.startswith(prefix):
        return None
    number = request_id[len(prefix) :]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 15 else None


_UNANSWERED = {
    Status.EXPIRED: ("expired", "the deadline passed"),
    Status.SUPERSEDED: ("superseded", "a newer record of its stream was waiting too"),
}


def answer_of(outcome: Outcome, row: int, label: str) -> Answer:
    """Turn an outcome into the answer of a row."""
    if isinstance(outcome, Result):
        ok = outcome.status == Status.OK
        answer = Answer(row, label, outcome.status, outcome.output or NULL)
        code, message = ("", "") if ok else _UNANSWERED[outcome.status]
    else:
        answer = Answer(row, label, REJECTED)
        code, message = outcome.error.code, outcome.error.message
    return msgspec.structs.replace(
        answer, model=outcome.model, version=outcome.version, epoch=outcome.epoch, code=code, message=message
    )


def unreadable(error: ItemError) -> Answer:
    """Make the answer of a row that could not be read."""
    return Answer(error.sequence, error.label, UNREADABLE, code="unreadable", message=error.message)
