"""A tiny worker for tests: answers every request of a topic in the wire format, through a real broker."""

import threading
import time
from collections.abc import Callable
from typing import Any, Self

import msgspec
from kafka import KafkaProducer

from producers.record_reader import RecordReader
from schemas.headers import decode_request, encode_dead_letter_headers, encode_result_headers
from schemas.records import ErrorDetail, Request, ResultBody, Stage, Status, Timings
from schemas.settings import Settings

Decide = Callable[[Request], str]
"""Says "ok", "expired", "reject" or "ignore" for a request."""


class EchoResponder:
    """Answers in a thread of its own from the start of the topic on; counts how often each request id came."""

    def __init__(self, settings: Settings, topic: str, decide: Decide = lambda request: "ok") -> None:
        self._settings = settings
        self._topic = topic
        self._decide = decide
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._answer_all, name="echo-responder", daemon=True)
        self.seen: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(10)

    def _answer_all(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._settings.kafka.bootstrap, linger_ms=1)
        with RecordReader(self._settings.kafka, [self._topic], start="earliest") as reader:
            while not self._stopped.is_set():
                for record in reader.poll(0.1):
                    self._answer(producer, record)
        producer.close(timeout=5)

    def _answer(self, producer: Any, record: Any) -> None:
        position = record.position
        request = decode_request(
            position.topic,
            position.partition,
            position.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
        )
        self.seen[request.id] = self.seen.get(request.id, 0) + 1
        verdict = self._decide(request)
        topics = self._settings.topics
        if verdict in ("ok", "expired"):
            value, headers = encode_answer(request, Status(verdict))
            producer.send(topics.results, value=value, key=request.key, headers=headers)
        elif verdict == "reject":
            headers = encode_refusal(request)
            producer.send(topics.dead_letters, value=request.payload, key=request.key, headers=headers)


def encode_answer(request: Request, status: Status = Status.OK) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Write a result whose output is the payload when that is JSON, and its length otherwise."""
    is_json = request.content_type == "application/json"
    output = (
        msgspec.Raw(request.payload or b"null") if is_json else msgspec.Raw(str(len(request.payload or b"")).encode())
    )
    body = ResultBody(
        status=status,
        output=output if status is Status.OK else msgspec.Raw(b"null"),
        source=request.position,
        timings=Timings(queue_ms=0.1, model_ms=0.2, batch_size=1),
    )
    return msgspec.json.encode(body), [*encode_result_headers("echo", "v1", 1), ("ce_id", request.id.encode())]


def encode_refusal(request: Request) -> list[tuple[str, bytes]]:
    """Write the headers of a dead letter."""
    error = ErrorDetail(stage=Stage.PREPROCESS, code="invalid_input", error_class="InvalidInputError", message="no")
    return encode_dead_letter_headers(
        request, error, group="g", worker="w-0", model="echo", version="v1", epoch=1, time_ms=int(time.time() * 1000)
    )
