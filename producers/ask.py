"""One request, one answer: publish and wait."""

from typing import Unpack

from producers.kafka_publisher import Publisher, PublisherOptions
from producers.outcomes import Outcome
from producers.record_size import SizeLimits
from producers.request_attributes import Attributes
from producers.result_reader import ResultReader
from schemas.settings import Settings


def publish_and_wait(
    settings: Settings,
    payload: bytes,
    *,
    content_type: str,
    topic: str | None = None,
    timeout_seconds: float = 30.0,
    **attributes: Unpack[Attributes],
) -> Outcome:
    """Publish one request and return its outcome; `topic` is the first request topic unless given.

    The reader stands at the end of its topics before the request is written, so no answer can be missed. Raises
    UnavailableError when no outcome comes in time, and whatever publishing raises.
    """
    topics = settings.topics
    options = PublisherOptions(limits=SizeLimits.of(settings.limits))
    with (
        ResultReader(settings.kafka, topics.results, topics.dead_letters) as reader,
        Publisher(settings.kafka, topic or topics.requests[0], options=options) as publisher,
    ):
        request_id = publisher.publish(payload, content_type=content_type, **attributes)
        publisher.flush()
        return reader.wait_for(request_id, timeout_seconds)
