"""kafka-python with crc32c: poll, answer, send, flush, commit, as its usage page has it.

Tuned: as many one-thread processes as cores, larger fetches and batches, and a commit only every 200 ms, after a flush.
"""

import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer

from benchmarks.contestants.assignment import answer_headers, read_assignment

WAIT_MS = 10
COMMIT_SECONDS = 0.2
_TUNED_PRODUCER = {"linger_ms": 20, "batch_size": 1 << 20}
_TUNED_CONSUMER = {"max_partition_fetch_bytes": 8 << 20, "fetch_max_bytes": 64 << 20}


def main() -> None:
    """Run until terminated."""
    task = read_assignment()
    model = task.load_model()
    consumer = KafkaConsumer(
        task.requests,
        bootstrap_servers=task.bootstrap,
        group_id=task.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=task.batch_size,
        **(_TUNED_CONSUMER if task.is_tuned else {}),
    )
    producer = KafkaProducer(bootstrap_servers=task.bootstrap, **(_TUNED_PRODUCER if task.is_tuned else {}))
    commit_at, is_behind = 0.0, False
    while True:
        polled = consumer.poll(WAIT_MS, max_records=task.batch_size)
        records: list[Any] = [record for partition in polled.values() for record in partition]
        if records:
            answers = model.answer([record.value for record in records])
            for record, answer in zip(records, answers, strict=True):
                headers = answer_headers(record.headers)
                producer.send(task.results, value=answer, key=record.key, headers=headers)
            is_behind = True
        # Before it has joined its group, a commit would only keep the consumer from joining.
        if is_behind and (not task.is_tuned or time.monotonic() >= commit_at):
            producer.flush()
            consumer.commit()
            commit_at, is_behind = time.monotonic() + COMMIT_SECONDS, False


if __name__ == "__main__":
    main()
