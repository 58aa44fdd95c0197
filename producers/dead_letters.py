"""Sending dead letters back to the topic they came from, as they came."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from producers.kafka_publisher import Publisher, PublisherOptions
from producers.outcomes import decode_outcome
from producers.record_reader import RecordReader
from producers.record_size import SizeLimits
from schemas.errors import EnvelopeError, InvalidRecordError
from schemas.records import DeadLetter
from schemas.settings import Settings

_STALL_SECONDS = 30.0
_SOURCE = "headrace/replay"


@dataclass(frozen=True)
class ReplayFilter:
    """Which dead letters go back. Everything that is given must match; nothing given matches all."""

    ids: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    source_topic: str | None = None
    since_ms: int | None = None
    """Only those written at or after this epoch time."""

    def matches(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is meant."""
        return (
            (not self.ids or letter.request_id in self.ids)
            and (not self.codes or letter.error.code in self.codes)
            and self.source_topic in (None, letter.source.topic)
            and (self.since_ms is None or letter.time_ms >= self.since_ms)
        )


@dataclass
class ReplayReport:
    """What a replay did. `skipped` says, by request id, why a matching letter could not be sent back."""

    matched: int = 0
    sent: int = 0
    malformed: int = 0
    skipped: dict[str, str] = field(default_factory=dict)


def find_obstacle(letter: DeadLetter, request_topics: tuple[str, ...]) -> str | None:
    """Say why a dead letter cannot go back, None when it can."""
    if letter.source.topic not in request_topics:
        return f"its source topic {letter.source.topic} is not one of topics.requests"
    if letter.payload_omitted:
        return f"its payload was too large to travel with it; it lies at {letter.source}"
    if letter.key is None and letter.payload is None:
        return "it has neither key nor value"
    return None


def original_headers(letter: DeadLetter) -> list[tuple[str, bytes]]:
    """Give back the request's headers; a null value becomes an empty one, since the client can write no other."""
    return [(name, value or b"") for name, value in letter.headers]


def replay_dead_letters(
    settings: Settings,
    wanted: ReplayFilter,
    *,
    limit: int | None = None,
    dry_run: bool = False,
    on_letter: Callable[[DeadLetter, str | None], None] | None = None,
) -> ReplayReport:
    """Send matching dead letters back to their source topics, oldest first, with key, value and headers as they came.

    The dead-letter topic is read as far as it goes now and is not changed: what is replayed twice is answered twice.
    Raises PublishError when a letter could not be written.
    """
    report = ReplayReport()
    options = PublisherOptions(limits=SizeLimits.of(settings.limits))
    publishers: dict[str, Publisher] = {}
    with ExitStack() as stack:
        for letter in _read_letters(settings, report):
            if not wanted.matches(letter):
                continue
            if limit is not None and report.matched >= limit:
                break
            report.matched += 1
            obstacle = find_obstacle(letter, settings.topics.requests)
            if obstacle is None and not dry_run:
                topic = letter.source.topic
                if topic not in publishers:
                    publisher = Publisher(settings.kafka, topic, source=_SOURCE, options=options)
                    publishers[topic] = stack.enter_context(publisher)
                obstacle = _send_back(publishers[topic], letter)
            if obstacle is None:
                report.sent += not dry_run
            else:
                report.skipped[letter.request_id] = obstacle
            if on_letter is not None:
                on_letter(letter, obstacle)
    return report


def _send_back(publisher: Publisher, letter: DeadLetter) -> str | None:
    try:
        publisher.publish_record(
            letter.request_id, key=letter.key, payload=letter.payload, headers=original_headers(letter)
        )
    except InvalidRecordError as error:
        return str(error)
    return None


def _read_letters(settings: Settings, report: ReplayReport) -> Iterator[DeadLetter]:
    topic = settings.topics.dead_letters
    with RecordReader(settings.kafka, [topic], start="earliest") as reader:
        for record in reader.read_until(reader.end_offsets(), timeout_seconds=_STALL_SECONDS):
            try:
                outcome = decode_outcome(record, dead_letters_topic=topic)
            except EnvelopeError:
                report.malformed += 1
                continue
            if isinstance(outcome, DeadLetter):
                yield outcome
