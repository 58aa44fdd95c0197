"""One broker, the files of each workload, and any number of runs of any contestant."""

import contextlib
import dataclasses
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.agreement import Agreement, compare_answers
from benchmarks.contestants.assignment import Assignment
from benchmarks.contestants.catalogue import Contestant
from benchmarks.contestants.headrace_settings import build_settings
from benchmarks.environments.environment import Environments
from benchmarks.runner.backlog import Topics
from benchmarks.runner.machine import Neighbours
from benchmarks.runner.processes import (
    ROOT,
    ContestantFailedError,
    build_commands,
    check_alive,
    read_last_words,
    running,
)
from benchmarks.runner.warm_memory import warm_memory
from benchmarks.runner.watch import watch
from benchmarks.workloads.specification import EXPECTED, MODELS, PAYLOADS, WEIGHTS, Workload
from headrace.local_stack.stack import LocalStack

START_SECONDS = 90.0
_LEAST_PER_SECOND = 20
_COMPARED_ANSWERS = 4000


@dataclass(frozen=True)
class Run:
    """What one run of one contestant gave."""

    per_second: float
    doubled: int = 0
    agreement: Agreement | None = None
    foreign_cores: float = 0.0


@dataclass(frozen=True)
class Variant:
    """A run of Headrace that differs from the usual one."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Laid over those of the contestant."""
    make_unique: Callable[[bytes, int], bytes] | None = None
    """Makes payload and number to a payload that no other request has, with the same answer."""


PLAIN = Variant()


@dataclass(frozen=True)
class Serving:
    """A contestant at work on a topic of its own."""

    requests: str
    results: str
    check: Callable[[], None]
    """Raises ContestantFailedError when it has ended."""


@dataclass(frozen=True)
class Prepared:
    """The files of a workload."""

    folder: Path
    payloads: list[bytes] = field(repr=False)
    expected: list[Any] = field(repr=False)


class Arena:
    """Runs contestants. Topics are fresh for every run, except the backlogs, which all share."""

    def __init__(self, stack: LocalStack, folder: Path, environments: Environments) -> None:
        self.bootstrap = stack.bootstrap
        self.topics = Topics(stack.bootstrap)
        self.environments = environments
        self._folder = folder
        self._prepared: dict[str, Prepared] = {}
        self._backlogs: set[str] = set()
        self._serial = 0

    def prepare(self, workload: Workload) -> Prepared:
        """Make weights, payloads and reference answers, once. Raises EnvironmentUnavailableError."""
        if workload.name not in self._prepared:
            folder = self._folder / workload.name
            folder.mkdir()
            python = self.environments.python(workload.environment)
            command = [str(python), "-m", "benchmarks.workloads.prepare", workload.name, str(folder)]
            done = subprocess.run(  # noqa: S603 - our own module, no shell
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise ContestantFailedError(f"the workload cannot be prepared: {done.stderr.strip()[-300:]}")
            payloads = msgspec.msgpack.decode((folder / PAYLOADS).read_bytes(), type=list[bytes])
            self._prepared[workload.name] = Prepared(folder, payloads, json.loads((folder / EXPECTED).read_bytes()))
        return self._prepared[workload.name]

    def measure(
        self,
        workload: Workload,
        contestant: Contestant,
        count: int,
        variant: Variant = PLAIN,
    ) -> Run:
        """Let a contestant answer a backlog of `count` requests, and check every id and the answers.

        Raises ContestantFailedError and EnvironmentUnavailableError.
        """
        prepared = self.prepare(workload)
        requests = self._backlog(workload, prepared, count, variant)
        timeout = START_SECONDS + count / _LEAST_PER_SECOND
        with (
            warm_memory(),
            self.serving(workload, contestant, requests, variant.settings) as serving,
            Neighbours() as neighbours,
        ):
            seen = watch(self.bootstrap, serving.results, count, timeout, serving.check)
        self.topics.drop(serving.results)
        stride = max(1, count // _COMPARED_ANSWERS)
        agreement = None
        if contestant.name != "transport-alone":
            agreement = compare_answers(seen.answers, prepared.expected, workload.tolerance, stride)
        return Run(seen.per_second, seen.doubled, agreement, neighbours.foreign_cores)

    def measure_limit(self, workload: Workload, contestant: Contestant, seconds: float) -> Run:
        """Run what needs no Kafka: records per second of all its processes together."""
        python = self._python(workload, contestant)
        assignment = self._assign(workload, contestant, "", "")
        contestant = dataclasses.replace(contestant, arguments=(*contestant.arguments, str(seconds)))
        log = self._log(assignment)
        commands = build_commands(contestant, python, log)
        with running(commands, self._file(assignment), log) as processes, Neighbours() as neighbours:
            for process in processes:
                process.wait(START_SECONDS + seconds)
        try:
            rates = [json.loads(line)["records_per_second"] for line in log.read_text().splitlines() if line[:1] == "{"]
        except (ValueError, TypeError, KeyError):
            raise ContestantFailedError(read_last_words(log)) from None
        if len(rates) != contestant.processes:
            raise ContestantFailedError(f"{len(rates)} of {contestant.processes} processes answered")
        return Run(sum(rates), foreign_cores=neighbours.foreign_cores)

    @contextlib.contextmanager
    def serving(
        self,
        workload: Workload,
        contestant: Contestant,
        requests: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[Serving]:
        """Run a contestant on `requests`, by default a fresh topic, with results in a fresh topic.

        `settings` are laid over those of a Headrace contestant. Raises as :meth:`measure`.
        """
        python = self._python(workload, contestant)
        results = self._name(workload, contestant)
        own = requests or f"{results}-requests"
        assignment = self._assign(workload, contestant, own, results)
        created = [results, f"{results}-dead", *([] if requests else [own])]
        self.topics.create(*created)
        file, log = self._file(assignment), self._log(assignment)
        config = file.with_suffix(".yaml")
        if not contestant.module:
            models = self.prepare(workload).folder / MODELS
            config.write_text(
                json.dumps(build_settings(assignment, contestant, models, settings or {})), encoding="utf-8"
            )
        with running(build_commands(contestant, python, config), file, log) as processes:
            yield Serving(own, results, lambda: check_alive(processes, log))
        self.topics.drop(*created[1:])

    def make_topic(self, workload: Workload, purpose: str) -> str:
        """A fresh topic for requests."""
        self._serial += 1
        name = f"{workload.name}-{purpose}-{self._serial}"
        self.topics.create(name)
        return name

    def _backlog(self, workload: Workload, prepared: Prepared, count: int, variant: Variant) -> str:
        name = f"{workload.name}-{count}-{'unique-' if variant.make_unique else ''}requests"
        if name not in self._backlogs:
            payloads, make_unique = prepared.payloads, variant.make_unique

            def payload_of(number: int) -> bytes:
                payload = payloads[number % len(payloads)]
                return make_unique(payload, number) if make_unique else payload

            self.topics.create(name)
            self.topics.publish(name, payload_of, count, workload.content_type)
            self._backlogs.add(name)
        return name

    def _python(self, workload: Workload, contestant: Contestant) -> Path:
        workload_python = self.environments.python(workload.environment)
        return self.environments.python(contestant.environment) if contestant.environment else workload_python

    def _name(self, workload: Workload, contestant: Contestant) -> str:
        self._serial += 1
        return f"{workload.name}-{contestant.name}-{self._serial}"

    def _assign(self, workload: Workload, contestant: Contestant, requests: str, results: str) -> Assignment:
        name = results or self._name(workload, contestant)
        folder = self._folder / "runs" / name
        folder.mkdir(parents=True)
        tuned_size = workload.batch_size if contestant.is_tuned else workload.documented_batch_size
        return Assignment(
            workload=workload.name,
            bootstrap=self.bootstrap,
            requests=requests,
            results=results,
            group=name,
            weights=str(self.prepare(workload).folder / WEIGHTS),
            batch_size=tuned_size,
            is_tuned=contestant.is_tuned,
            processes=max(contestant.processes, contestant.lanes),
            threads=contestant.threads,
            folder=str(folder),
        )

    def _file(self, assignment: Assignment) -> Path:
        path = Path(assignment.folder) / "assignment.json"
        assignment.write(path)
        return path

    def _log(self, assignment: Assignment) -> Path:
        return Path(assignment.folder) / "output.log"
