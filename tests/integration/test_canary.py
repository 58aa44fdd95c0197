"""A canary on a real Kafka and a real Valkey, over a worker that is played: results of both versions, by the split."""

import json
import time
from collections.abc import Callable, Iterator
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
    redis = RedisSettings(url=SecretStr(stack.redis_url), prefix=unique[-40:].strip("-"))
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
                "redis": {"url": redis.url.get_secret_value(), "prefix": redis.prefix},
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
    won: dict[int, set[bytes]] = {}
    for (epoch, key), met in worker.versions_by_key.items():
        if met == {"new"}:
            won.setdefault(epoch, set()).add(key)
    assert won[2] <= won[3]
