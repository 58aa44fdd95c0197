"""The Redis door of a preparation: the candidate of each model, and the reports of the workers that serve it.

Workers read a shadow here too, together with the candidate; commands set it through :mod:`model_store.live_shadows`.

A value that is not renewed expires: a command that died frees its candidate, a worker that died is forgotten. Reads are
bounded, whatever lies under a key.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from model_store.redis_connection import RedisConnection, exclusively, read_bounded, translated
from model_store.shadow import MAX_SHADOW_BYTES, SHADOW_KEY, decode_shadow
from model_store.worker_reports import (
    CANDIDATE_TTL_SECONDS,
    MAX_CANDIDATE_BYTES,
    MAX_REPORT_BYTES,
    REPORT_TTL_SECONDS,
    Candidate,
    Orders,
    Roster,
    WorkerReport,
    check_worker_id,
    decode_candidate,
    decode_report,
    encode_candidate,
    encode_report,
    is_worker_id,
)
from schemas.errors import InvalidPointerError, PointerConflictError
from schemas.settings import RedisSettings

MAX_WORKERS = 1024
_MAX_SET_BYTES = 1 << 20
_Order = TypeVar("_Order")
_TAKEN = "somebody else began to prepare another version at the same moment"


class LiveWorkers:
    """Reads and writes candidates and reports. Connects on first use; one instance per thread.

    Every method raises UnavailableError, UnsafeNameError for a model name and InvalidPointerError for a stored value
    that is not what it should be.
    """

    def __init__(self, settings: RedisSettings) -> None:
        self._connection = RedisConnection(settings)

    def read_candidate(self, model: str) -> Candidate | None:
        """Return the candidate that is to be prepared now, None when there is none."""
        key = self._candidate_key(model)
        with translated():
            return _read_candidate(self._connection.client, key)

    def read_orders(self, model: str) -> Orders:
        """Return what workers are to hold beside what answers, in one exchange. What is not sound is left out."""
        bounds = {
            self._candidate_key(model): MAX_CANDIDATE_BYTES,
            self._connection.key(SHADOW_KEY, model): MAX_SHADOW_BYTES,
        }
        with translated(), self._connection.client.pipeline(transaction=False) as pipe:
            for key, most in bounds.items():
                # One byte more than the bound, so that a value that is too long shows.
                pipe.getrange(key, 0, most)
            candidate, shadow = pipe.execute(raise_on_error=False)
        return Orders(_decode_sound(decode_candidate, candidate), _decode_sound(decode_shadow, shadow))

    def propose_candidate(self, model: str, candidate: Candidate) -> None:
        """Ask all workers to prepare `candidate`, for as long as it is renewed.

        Raises PointerConflictError, naming who, when another one is being prepared.
        """
        key = self._candidate_key(model)
        with exclusively(_TAKEN), self._connection.client.pipeline() as pipe:
            pipe.watch(key)
            present = _read_sound(pipe, key)
            if present is not None:
                named = ", ".join(present.versions)
                raise PointerConflictError(
                    f"{present.by or 'somebody'} is preparing {named} of {model}: try again later; what a command that"
                    f" was killed prepared is forgotten {CANDIDATE_TTL_SECONDS:g} s after it"
                )
            self._set_candidate(pipe, model, candidate)

    def renew_candidate(self, model: str, candidate: Candidate) -> bool:
        """Keep `candidate` alive, put back when it has expired. False when another one has its place."""
        key = self._candidate_key(model)
        with exclusively(_TAKEN), self._connection.client.pipeline() as pipe:
            pipe.watch(key)
            present = _read_sound(pipe, key)
            if present is None:
                self._set_candidate(pipe, model, candidate)
                return True
            if present.id != candidate.id:
                return False
            pipe.multi()
            pipe.pexpire(key, _milliseconds(CANDIDATE_TTL_SECONDS))
            pipe.execute()
            return True

    def withdraw_candidate(self, model: str, candidate_id: str) -> None:
        """Take the candidate away, if it still is this one; workers let go of what they prepared for it."""
        key = self._candidate_key(model)
        with exclusively(_TAKEN), self._connection.client.pipeline() as pipe:
            pipe.watch(key)
            present = _read_sound(pipe, key)
            if present is None or present.id != candidate_id:
                return
            pipe.multi()
            pipe.delete(key)
            pipe.publish(self._connection.hint_channel(model), "candidate")
            pipe.execute()

    def report_worker(self, model: str, report: WorkerReport) -> None:
        """Say that this worker is alive and how far it is; to be repeated every REPORT_EVERY_SECONDS."""
        key = self._report_key(model, report.worker)
        with translated(), self._connection.client.pipeline() as pipe:
            pipe.set(key, encode_report(report), px=_milliseconds(REPORT_TTL_SECONDS))
            pipe.sadd(self._workers_key(model), report.worker)
            pipe.execute()

    def withdraw_worker(self, model: str, worker: str) -> None:
        """Say that this worker leaves, so that nobody waits for it until its report expires."""
        key = self._report_key(model, worker)
        with translated(), self._connection.client.pipeline() as pipe:
            pipe.delete(key)
            pipe.srem(self._workers_key(model), worker)
            pipe.execute()

    def read_workers(self, model: str) -> Roster:
        """Return the reports of all workers that are alive, by worker id. Forgets those that are not."""
        with translated():
            workers = self._read_ids(model)
            pipe = self._connection.client.pipeline(transaction=False)
            for worker in workers:
                # One byte more than the bound, so that a value that is too long shows.
                pipe.getrange(self._report_key(model, worker), 0, MAX_REPORT_BYTES)
            values = pipe.execute(raise_on_error=False) if workers else []
            for worker, value in zip(workers, values, strict=True):
                if value == b"":
                    self._forget(model, worker)
        return _gather(dict(zip(workers, values, strict=True)))

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _read_ids(self, model: str) -> list[str]:
        """The ids in the set that can be ids, in order. Its size is asked first: members can be of any length."""
        key, client = self._workers_key(model), self._connection.client
        kind = client.type(key)
        if kind == b"none":
            return []
        if kind != b"set":
            raise InvalidPointerError(f"{key} is a {kind.decode(errors='replace')} and not a set")
        if client.scard(key) > MAX_WORKERS or (client.memory_usage(key, samples=0) or 0) > _MAX_SET_BYTES:
            raise InvalidPointerError(f"{key} has more than {MAX_WORKERS} workers or {_MAX_SET_BYTES} bytes")
        ids = (member.decode("ascii", errors="replace") for member in client.smembers(key))
        return sorted(worker for worker in ids if is_worker_id(worker))

    def _forget(self, model: str, worker: str) -> None:
        """Drop a worker without a report from the set, unless it reports at this moment."""
        key = self._report_key(model, worker)
        with (
            suppress(PointerConflictError),
            exclusively(f"{worker} reports again"),
            self._connection.client.pipeline() as pipe,
        ):
            pipe.watch(key)
            if not pipe.exists(key):
                pipe.multi()
                pipe.srem(self._workers_key(model), worker)
                pipe.execute()

    def _set_candidate(self, pipe: Any, model: str, candidate: Candidate) -> None:
        pipe.multi()
        pipe.set(self._candidate_key(model), encode_candidate(candidate), px=_milliseconds(CANDIDATE_TTL_SECONDS))
        pipe.publish(self._connection.hint_channel(model), "candidate")
        pipe.execute()

    def _candidate_key(self, model: str) -> str:
        return self._connection.key("candidate", model)

    def _workers_key(self, model: str) -> str:
        return self._connection.key("workers", model)

    def _report_key(self, model: str, worker: str) -> str:
        return f"{self._connection.key('worker', model)}:{check_worker_id(worker)}"


def _read_candidate(client: Any, key: str) -> Candidate | None:
    value = read_bounded(client, key, MAX_CANDIDATE_BYTES)
    return None if value is None else decode_candidate(value)


def _read_sound(client: Any, key: str) -> Candidate | None:
    """The candidate there; what is not one does not stand in the way of one."""
    try:
        return _read_candidate(client, key)
    except InvalidPointerError:
        return None


def _decode_sound(decode: Callable[[bytes], _Order], value: Any) -> _Order | None:
    """What the value says; an empty one is a key that is not there, an exception one that cannot be read as a text."""
    try:
        return decode(value) if isinstance(value, bytes) and value else None
    except InvalidPointerError:
        return None


def _gather(values: dict[str, Any]) -> Roster:
    """Values by worker; an empty one is a worker that has gone, an exception a key that is no string."""
    reports: list[WorkerReport] = []
    unreadable: list[str] = []
    for worker, value in values.items():
        if value == b"":
            continue
        try:
            report = decode_report(value) if isinstance(value, bytes) else None
        except InvalidPointerError:
            report = None
        if report is not None and report.worker == worker:
            reports.append(report)
        else:
            unreadable.append(worker)
    return Roster(tuple(reports), tuple(unreadable))


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
