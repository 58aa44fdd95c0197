"""Settings and topics of one pipeline on a real broker."""

from producers.topics import create_topics
from schemas.settings import KafkaSettings, Settings, TopicSettings


def make_pipeline(bootstrap: str, prefix: str, *, partitions: int = 2, **groups: object) -> Settings:
    """Create the topics of a pipeline under names of its own and return its settings."""
    topics = TopicSettings(
        requests=(f"{prefix}.requests",),
        results=f"{prefix}.results",
        dead_letters=f"{prefix}.dead-letters",
        control=f"{prefix}.control",
    )
    kafka = KafkaSettings(bootstrap=bootstrap)
    settings = Settings().model_copy(update={"kafka": kafka, "topics": topics, **groups})
    create_topics(kafka, topics, partitions=partitions, limits=settings.limits)
    return settings
