"""An answer cache whose model and whose Redis are played: each does what the test says, when it says so."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry

from schemas.records import ErrorDetail, Stage, Timings
from schemas.settings import CacheSettings
from stream_workers.answer_cache import AnswerCache
from stream_workers.batching.work import Answer, ServedVersion, WorkItem
from stream_workers.metrics import WorkerMetrics
from tests.unit.stream_workers.builders import request

RAN = Timings(1.0, 2.0, 4)
TROUBLE = ErrorDetail(stage=Stage.MODEL, code="model_failure", error_class="E", message="no")


class PlayedMaker:
    """The model, as far as the cache asks: it may switch versions."""

    def __init__(self) -> None:
        self.version = ServedVersion("m", "v1", 1)
        self.identities = {"v1": b"1" * 32, "v2": b"2" * 32}

    def answer_identity(self, version: ServedVersion | None = None) -> bytes:
        return self.identities.get((version or self.version).version, b"")

    def switch(self, number: int, *queued: WorkItem) -> None:
        """New records meet version `number`, and those of `queued` too."""
        self.version = ServedVersion("m", f"v{number}", self.version.epoch + 1)
        for item in queued:
            item.version = self.version


class PlayedRemote:
    """Redis, as far as the cache asks: it answers when the test says so."""

    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.asked: list[bytes] = []
        self.takes_questions = True
        self._replies: list[tuple[bytes, bytes | None]] = []

    def ask(self, keys: Sequence[bytes]) -> bool:
        if self.takes_questions:
            self.asked += keys
        return self.takes_questions

    def take_replies(self) -> list[tuple[bytes, bytes | None]]:
        replies, self._replies = self._replies, []
        return replies

    def put(self, key: bytes, output: bytes) -> None:
        self.stored[key] = output

    def take_faults(self) -> Mapping[str, int]:
        return {}

    def reply(self, *, miss: bool = False) -> None:
        key = self.asked.pop(0)
        self._replies.append((key, None if miss else self.stored.get(key)))


class CacheRig:
    def __init__(self, *, remote: bool = False, **varied: object) -> None:
        self.maker, self.metrics = PlayedMaker(), WorkerMetrics(CollectorRegistry())
        self.remote = PlayedRemote() if remote else None
        self.cache = AnswerCache(CacheSettings(**varied), self.maker, self.metrics.cache, self.remote)  # type: ignore[arg-type]
        self._offset = 0

    def record(self, payload: bytes = b"{}", partition: int = 0, **varied: object) -> WorkItem:
        self._offset += 1
        priority = varied.pop("priority", 0)
        made = request(self._offset, partition, payload=payload, **varied)  # type: ignore[arg-type]
        item = WorkItem(made, 1, 10.0, "s", len(payload), priority)  # type: ignore[arg-type]
        item.version = self.maker.version
        return item

    def run(self, *items: WorkItem, output: bytes = b"1", now: float = 12.0) -> list[WorkItem]:
        """The model answers these, each under its version."""
        for item in items:
            item.outcome = Answer(output, item.version, RAN)
        return self.cache.note_answers(items, now)

    def counted(self, result: str) -> float:
        return self.metrics.cache.lookups.labels(result)._value.get()
