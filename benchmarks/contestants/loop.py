"""The straightforward consumer that a careful engineer writes first, with confluent-kafka.

Consume a batch, answer it, flush, commit. Tuned, it is one of as many processes as there are cores.
"""

from confluent_kafka import Consumer, Producer

from benchmarks.contestants.assignment import answer_headers, read_assignment

WAIT_SECONDS = 0.01


def main() -> None:
    """Run until terminated."""
    task = read_assignment()
    model = task.load_model()
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": task.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    consumer.subscribe([task.requests])
    while True:
        messages = [message for message in consumer.consume(task.batch_size, WAIT_SECONDS) if not message.error()]
        if not messages:
            continue
        answers = model.answer([message.value() or b"" for message in messages])
        for message, answer in zip(messages, answers, strict=True):
            producer.produce(task.results, answer, message.key(), headers=answer_headers(message.headers()))
        producer.flush()
        consumer.commit(asynchronous=False)


if __name__ == "__main__":
    main()
