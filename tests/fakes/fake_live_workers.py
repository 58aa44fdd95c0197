"""Candidates and reports in dicts that expire by a clock that the test sets."""

from model_store.worker_reports import (
    CANDIDATE_TTL_SECONDS,
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
)
from schemas.errors import InvalidPointerError, PointerConflictError
from schemas.names import check_name


class FakeLiveWorkers:
    """Passes the same tests as :class:`model_store.live_workers.LiveWorkers`. `now` is in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.hints_sent = 0
        self._candidates: dict[str, tuple[bytes, float]] = {}
        self._reports: dict[tuple[str, str], tuple[bytes, float]] = {}

    def read_candidate(self, model: str) -> Candidate | None:
        stored, until = self._candidates.get(check_name("model name", model), (None, 0.0))
        return None if stored is None or until <= self.now else decode_candidate(stored)

    def read_orders(self, model: str) -> Orders:
        return Orders(self._read_sound(model))

    def propose_candidate(self, model: str, candidate: Candidate) -> None:
        present = self._read_sound(model)
        if present is not None:
            raise PointerConflictError(f"{present.by} is preparing {', '.join(present.versions)} of {model}")
        self._set(model, candidate)

    def renew_candidate(self, model: str, candidate: Candidate) -> bool:
        present = self._read_sound(model)
        if present is None:
            self._set(model, candidate)
        elif present.id == candidate.id:
            self.put_candidate(model, self._candidates[model][0])
        else:
            return False
        return True

    def withdraw_candidate(self, model: str, candidate_id: str) -> None:
        present = self._read_sound(model)
        if present is not None and present.id == candidate_id:
            del self._candidates[model]
            self.hints_sent += 1

    def report_worker(self, model: str, report: WorkerReport) -> None:
        self.put_report(model, report.worker, encode_report(report))

    def withdraw_worker(self, model: str, worker: str) -> None:
        self._reports.pop((check_name("model name", model), check_worker_id(worker)), None)

    def read_workers(self, model: str) -> Roster:
        check_name("model name", model)
        reports: list[WorkerReport] = []
        unreadable: list[str] = []
        for (owner, worker), (stored, until) in sorted(self._reports.items()):
            if owner != model or until <= self.now:
                continue
            try:
                report = decode_report(stored)
            except InvalidPointerError:
                unreadable.append(worker)
                continue
            if report.worker == worker:
                reports.append(report)
            else:
                unreadable.append(worker)
        return Roster(tuple(reports), tuple(unreadable))

    def put_candidate(self, model: str, value: bytes) -> None:
        self._candidates[model] = (value, self.now + CANDIDATE_TTL_SECONDS)

    def put_report(self, model: str, worker: str, value: bytes) -> None:
        key = (check_name("model name", model), check_worker_id(worker))
        self._reports[key] = (value, self.now + REPORT_TTL_SECONDS)

    def close(self) -> None:
        pass

    def _set(self, model: str, candidate: Candidate) -> None:
        self.put_candidate(model, encode_candidate(candidate))
        self.hints_sent += 1

    def _read_sound(self, model: str) -> Candidate | None:
        try:
            return self.read_candidate(model)
        except InvalidPointerError:
            return None
