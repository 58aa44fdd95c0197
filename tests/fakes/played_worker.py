"""A worker of two versions on real servers: follows Redis as a worker does, and writes results without requests."""

import random
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import msgspec
from kafka import KafkaProducer

from model_store.live_versions import LiveVersions
from model_store.live_workers import LiveWorkers
from model_store.timeline import Timeline
from model_store.version_history import find_current
from schemas.errors import UnavailableError
from schemas.headers import encode_dead_letter_headers, encode_result_headers
from schemas.records import JSON, DeadLetter, Request, Result, ResultBody
from schemas.settings import Settings
from tests.fakes.played_outcomes import Behaviour, play
from tests.fakes.simulated_workers import MODEL, SimulatedWorker

STEP_SECONDS = 0.05


class PlayedWorker:
    """Answers in a thread of its own, `per_second` results with the key's version of the split that holds."""

    def __init__(self, settings: Settings, behaviours: Mapping[str, Behaviour], per_second: float = 1000.0) -> None:
        self._settings = settings
        self._behaviours = behaviours
        self._per_step = round(per_second * STEP_SECONDS)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="played-worker", daemon=True)
        self.versions_by_key: dict[tuple[int, bytes], set[str]] = {}
        """Which versions answered a key, by epoch and key."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(10)

    def _work(self) -> None:
        versions, workers = LiveVersions(self._settings.redis), LiveWorkers(self._settings.redis)
        doors: Any = SimpleNamespace(versions_door=versions, workers_door=workers, changed_at=0.0)
        worker, dice, number = SimulatedWorker("w0", warm={"old"}), random.Random(5), 0
        timeline: Timeline | None = None
        producer = KafkaProducer(bootstrap_servers=self._settings.kafka.bootstrap, linger_ms=5)
        while not self._stopped.wait(STEP_SECONDS):
            try:
                worker.step(doors, time.monotonic())
                timeline = versions.read(MODEL)
            except UnavailableError:
                # As a worker does: it goes on with what it knows.
                pass
            entry = None if timeline is None else find_current(timeline, time.time_ns() // 1_000_000)
            for _ in range(0 if entry is None else self._per_step):
                number += 1
                outcome = play(entry, self._behaviours, dice, number)
                self.versions_by_key.setdefault((outcome.epoch, outcome.key or b""), set()).add(outcome.version)
                self._write(producer, outcome)
        producer.close(timeout=5)
        versions.close()
        workers.close()

    def _write(self, producer: Any, outcome: Result | DeadLetter) -> None:
        topics = self._settings.topics
        if isinstance(outcome, DeadLetter):
            producer.send(topics.dead_letters, value=b"{}", key=outcome.key, headers=_refuse(outcome))
            return
        body = ResultBody(
            status=outcome.status,
            output=outcome.output or msgspec.Raw(b"null"),
            source=outcome.source,
            timings=outcome.timings,
        )
        headers = encode_result_headers(outcome.model, outcome.version, outcome.epoch)
        headers.append(("ce_id", outcome.request_id.encode()))
        producer.send(topics.results, value=msgspec.json.encode(body), key=outcome.key, headers=headers)


def _refuse(letter: DeadLetter) -> list[tuple[str, bytes]]:
    source = letter.source
    request = Request(
        id=letter.request_id,
        topic=source.topic,
        partition=source.partition,
        offset=source.offset,
        timestamp_ms=0,
        key=letter.key,
        payload=b"{}",
        content_type=JSON,
    )
    return encode_dead_letter_headers(
        request,
        letter.error,
        group=letter.group,
        worker=letter.worker,
        model=letter.model,
        version=letter.version,
        epoch=letter.epoch,
        time_ms=letter.time_ms,
    )
