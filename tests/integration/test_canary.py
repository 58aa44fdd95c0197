"""A canary on a real Kafka and a real Valkey, over a worker that is played: results of both versions, by the split."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.cli import canary_command, main
from headrace.cli.exit_codes import ExitCode
from headrace.local_stack.stack import LocalStack
from model_store.live_versions import LiveVersions
from model_store.timeline import SwitchMode, Timeline
from schemas.settings import RedisSettings, Settings
from tests.fakes.pipeline_topics import make_pipeline
from tests.fakes.played_outcomes import Behaviour
from tests.fakes.played_worker import PlayedWorker
from tests.fakes.simulated_workers import MODEL

Run = Callable[..., int]
WINDOW_MS = 2000


@pytest.fixture
def settings(stack: LocalStack, unique: str) -> Settings:
    redis = RedisSettings(url=SecretStr(stack.redis_url), prefix=unique[-40:].strip("-"), timeout_seconds=0.5)
    return make_pipeline(stack.bootstrap, unique, redis=redis)


@pytest.fixture
def versions(settings: Settings) -> Iterator[LiveVersions]:
    door = LiveVersions(settings.redis)
    door.activate(MODEL, "old", 0, time.time_ns() // 1_000_000)
    yield door
    door.close()


@pytest.fixture
def run(settings: Settings, versions: LiveVersions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    topics, redis = settings.topics, settings.redis
    config = tmp_path / "headrace.yaml"
    config.write_text(
        json.dumps(
            {
                "kafka": {"bootstrap": settings.kafka.bootstrap},
                "redis": {"url": redis.url.get_secret_value(), "prefix": redis.prefix, "timeout_seconds": 0.5},
                "topics": {
                    "requests": list(topics.requests),
                    "results": topics.results,
                    "dead_letters": topics.dead_letters,
                },
            }
        )
    )
    # The worker is played, so no version lies in a store.
    monkeypatch.setattr(canary_command, "verify_versions", lambda *_: None)

    def run_it(*arguments: str) -> int:
        options = ("--stages", "10,50,100", "--window", f"{WINDOW_MS}ms", "--config", str(config))
        return main(["models", "canary", MODEL, "new", *options, *arguments])

    return run_it


def read(versions: LiveVersions) -> Timeline:
    timeline = versions.read(MODEL)
    assert timeline is not None
    return timeline


def test_planted_errors_halt_it_within_the_window_and_the_version_before_is_back(
    run: Run, settings: Settings, versions: LiveVersions, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Behaviour(error_rate=0.01)
    with PlayedWorker(settings, {"old": good, "new": Behaviour(error_rate=0.2)}):
        code = run("--min-results", "100")

    assert code == ExitCode.FAILED
    assert "canary new halted at 10%: error rate " in capsys.readouterr().err
    stage, back = read(versions).entries[1:]
    assert (dict(stage.split), stage.mode) == ({"old": 90, "new": 10}, SwitchMode.EXACT)
    assert (dict(back.split), back.mode) == ({"old": 1}, SwitchMode.NOW)
    # One look late at most, with room for a machine that is busy.
    assert back.at_ms - stage.effective_from_ms < WINDOW_MS + 1500


def test_a_good_version_goes_through_to_a_hundred_percent_and_every_key_sticks(
    run: Run, settings: Settings, versions: LiveVersions, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Behaviour(error_rate=0.01)
    with PlayedWorker(settings, {"old": good, "new": good}) as worker:
        code = run("--quality", "confidence")

    printed = capsys.readouterr()
    assert code == ExitCode.OK, printed.err
    assert printed.out == "m new epoch 4\n"
    assert [dict(entry.split) for entry in read(versions).entries] == [
        {"old": 1}, {"old": 90, "new": 10}, {"old": 50, "new": 50}, {"new": 1},
    ]  # fmt: skip
    assert all(len(met) == 1 for met in worker.versions_by_key.values())
    answered = {
        epoch: {key: met for (at, key), met in worker.versions_by_key.items() if at == epoch} for epoch in (2, 3)
    }
    assert {key for key, met in answered[2].items() if met == {"new"}}
    assert not [key for key, met in answered[3].items() if answered[2].get(key) == {"new"} and met == {"old"}]


@contextmanager
def frozen_in_the_first_stage(pid: int, versions: LiveVersions, seconds: float) -> Iterator[None]:
    """Stop a process for some seconds as soon as the first stage has begun."""

    def freeze() -> None:
        give_up_at = time.monotonic() + 30
        while (entry := read(versions).entries[-1]).epoch < 2 and time.monotonic() < give_up_at:
            time.sleep(0.02)
        time.sleep(max(0.0, entry.effective_from_ms / 1000 - time.time()) + 0.5)
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=freeze)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize(("server", "silent"), [("broker_pid", "Kafka"), ("redis_pid", "Redis")])
def test_a_server_that_is_silent_for_longer_than_a_window_ends_it_with_the_version_before_back(
    run: Run,
    settings: Settings,
    versions: LiveVersions,
    stack: LocalStack,
    capsys: pytest.CaptureFixture[str],
    server: str,
    silent: str,
) -> None:
    good = Behaviour(error_rate=0.01)
    with (
        PlayedWorker(settings, {"old": good, "new": good}, per_second=200.0),
        frozen_in_the_first_stage(getattr(stack, server), versions, 3 * WINDOW_MS / 1000),
    ):
        code = run("--min-results", "10000")

    assert f"canary new given up at 10%: {silent} has not answered for " in capsys.readouterr().err
    assert code == ExitCode.UNAVAILABLE
    assert dict(read(versions).entries[-1].split) == {"old": 1}
