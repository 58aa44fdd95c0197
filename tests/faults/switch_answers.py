"""What was answered, read back from Kafka: every answer by the place of its request, and which cannot be right."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from producers.outcomes import decode_outcome
from producers.record_reader import RecordReader
from schemas.records import DeadLetter
from schemas.settings import TopicSettings
from tests.faults.harness import FaultRun

Place = tuple[str, int, int]
"""Topic, partition and offset of a request."""
_NUMBERED = re.compile(r"^(?:sent-\d+|capacity\d+)-(\d+)$")


@dataclass(frozen=True)
class GivenAnswer:
    """The part of an outcome that depends on the record and on the version it met, and on nothing else."""

    output: bytes | None
    """None for a dead letter, and for every other outcome that no model made."""
    model: str
    version: str
    epoch: int
    precision: str


@dataclass(frozen=True)
class Answers:
    """Everything that lies in the topics of one group."""

    given: Mapping[Place, GivenAnswer]
    numbers: Mapping[Place, int]
    """The number of the request, where its id has one."""
    model_ms: list[float]
    """Service time of the batch of each record, in the model process."""

    @property
    def failed(self) -> int:
        """Requests that no model has answered."""
        return sum(answer.output is None for answer in self.given.values())


def read_answers(run: FaultRun, topics: TopicSettings) -> Answers:
    """Read all outcomes, as a read_committed reader sees them."""
    given: dict[Place, GivenAnswer] = {}
    numbers: dict[Place, int] = {}
    model_ms = []
    with RecordReader(run.rig.direct, [topics.results, topics.dead_letters], start="earliest") as reader:
        for record in reader.read_until(reader.end_offsets(), timeout_seconds=60):
            one = decode_outcome(record, dead_letters_topic=topics.dead_letters)
            place = (one.source.topic, one.source.partition, one.source.offset)
            output = None
            if not isinstance(one, DeadLetter):
                output = None if one.output is None else bytes(one.output)
                model_ms.append(one.timings.model_ms)
            given[place] = GivenAnswer(output, one.model, one.version, one.epoch, one.precision)
            if (found := _NUMBERED.match(one.request_id)) is not None:
                numbers[place] = int(found[1])
    return Answers(given, numbers, model_ms)


def count_impostors(answers: Answers, payloads: int) -> int:
    """Count answers that another version made than they name.

    Requests repeat after `payloads`, and a version answers the same request the same way. So what a version mostly
    says to a request is its answer, and each other one under its name came from elsewhere: from a batch that mixed
    versions, for example. Raises ValueError when versions cannot be told apart by their answers.
    """
    said: defaultdict[tuple[int, str], Counter[bytes]] = defaultdict(Counter)
    for place, number in answers.numbers.items():
        answer = answers.given[place]
        if answer.output is not None:
            said[number % payloads, answer.version][answer.output] += 1
    usual = {key: outputs.most_common(1)[0][0] for key, outputs in said.items()}
    versions: defaultdict[tuple[int, bytes], set[str]] = defaultdict(set)
    for (number, version), output in usual.items():
        versions[number, output].add(version)
    alike = [names for names in versions.values() if len(names) > 1]
    if alike:
        raise ValueError(f"{' and '.join(sorted(alike[0]))} answer a request the same way: nothing can be told by that")
    return sum(outputs.total() - outputs[usual[key]] for key, outputs in said.items())


def count_differing(first: Answers, again: Answers, oldest_epoch: int) -> tuple[int, int]:
    """Return how many answers were compared, and how many of them differ in a byte or a version header.

    Records that met a decision below `oldest_epoch` are left out: the timeline keeps no more.
    """
    compared = {place for place, answer in first.given.items() if answer.epoch >= oldest_epoch}
    return len(compared), sum(first.given[place] != again.given.get(place) for place in compared)
