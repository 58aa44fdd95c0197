"""How many records lie in topics, as readers of one isolation level or the other see them."""

from confluent_kafka import Consumer, TopicPartition

from tests.faults.conftest import Rig


def count_records(rig: Rig, topics: tuple[str, ...], isolation: str) -> int:
    """Count every record that a reader of this isolation level sees."""
    config = {"group.id": "count", "isolation.level": isolation, "enable.partition.eof": True}
    reader = Consumer({"bootstrap.servers": rig.stack.bootstrap, **config})
    places = [
        TopicPartition(topic, partition, 0)
        for topic in topics
        for partition in reader.list_topics(topic, 10).topics[topic].partitions
    ]
    reader.assign(places)
    count, open_places = 0, len(places)
    while open_places and (messages := reader.consume(1000, 10)):
        ends = sum(message.error() is not None for message in messages)
        open_places -= ends
        count += len(messages) - ends
    reader.close()
    return count
