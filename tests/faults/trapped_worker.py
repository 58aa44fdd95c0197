"""A worker whose model has traps in it, and the numbers that tell which records the model met."""

import json
from collections import Counter
from pathlib import Path

from producers.outcomes import Outcome
from producers.topics import TopicAdmin
from tests.faults.exchange import Exchange, Raw, answer_of
from tests.faults.harness import FaultRun
from tests.faults.worker_process import Role, ask_health, wait_until


class Numbers:
    """Numbers that no record had before, so that what reached the model can be told."""

    def __init__(self, seen: Path) -> None:
        self._last = 0
        self._seen = seen

    def take(self, count: int = 1) -> list[int]:
        """Return new numbers."""
        self._last += count
        return list(range(self._last - count, self._last))

    def count_seen(self) -> Counter[int]:
        """How often the model met each number."""
        lines = self._seen.read_text().splitlines() if self._seen.exists() else []
        return Counter(int(float(line)) for line in lines if line != "-1")

    def wait_until_seen(self, number: int) -> None:
        """Wait until the model has met a number."""
        wait_until(lambda: number in self.count_seen(), 20, f"{number} reached the model")


class Trapped:
    """The worker under test, and what the tests send to it and read from it."""

    def __init__(self, run: FaultRun, exchange: Exchange, numbers: Numbers) -> None:
        self.run = run
        self.exchange = exchange
        self.numbers = numbers
        self.members = run.worker.processes(Role.MEMBER)

    def record(self, x: int, do: str = "", *, partition: int = 0, topic: int = 0, **more: float) -> Raw:
        """One record for the model."""
        value = {"x": x, **({"do": do} if do else {}), **more}
        return Raw(json.dumps(value).encode(), partition=partition, topic=self.run.topics.requests[topic])

    def send_among_good(self, do: str, count: int = 30, every: int = 30) -> tuple[list[Outcome], list[Outcome]]:
        """Send `count` records, one in `every` of them bad, and return the bad ones' outcomes; the rest are checked."""
        numbers = self.numbers.take(count)
        bad = set(numbers[every // 2 :: every])
        outcomes = self.exchange.ask(*(self.record(x, do if x in bad else "") for x in numbers), seconds=30)
        good = [(x, outcome) for x, outcome in zip(numbers, outcomes, strict=True) if x not in bad]
        assert [answer_of(outcome) for _, outcome in good] == [x for x, _ in good]
        return [outcome for x, outcome in zip(numbers, outcomes, strict=True) if x in bad], outcomes

    def health(self, path: str = "ready") -> tuple[int, str]:
        """Ask the health endpoint."""
        return ask_health(self.run.worker.log, path)

    def count_in_log(self, text: str) -> int:
        """How often the worker has said something."""
        return self.run.worker.log.read_text().count(text)

    def wait_for_instances(self) -> None:
        """Wait until no model process is being replaced."""
        wait_until(
            lambda: 'headrace_model_processes{slot="worker-0"} 2' in self.health("metrics")[1], 20, "2 instances"
        )

    def committed(self) -> dict[tuple[str, int], int]:
        """The group's offsets."""
        with TopicAdmin(self.run.rig.direct) as admin:
            return admin.committed_offsets(self.run.group)
