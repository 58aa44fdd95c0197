import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.local_stack import kafka_jars
from headrace.local_stack.kafka_jars import PinnedJar, read_pinned_jars, resolve_jars
from schemas.errors import ChecksumMismatchError, ConfigurationError, UnavailableError

BODY = b"a jar"
JAR = PinnedJar("org.example", "thing", "1.0", hashlib.sha256(BODY).hexdigest())


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[bytes | Exception], list[str]]:
    """Sets what the repository answers for `JAR`, and returns the list of what was asked for."""

    def set_answer(answer: bytes | Exception) -> list[str]:
        asked: list[str] = []

        def resolve() -> None:
            asked.append(JAR.coordinate)
            if isinstance(answer, Exception):
                raise answer
            JAR.path_in(tmp_path).parent.mkdir(parents=True, exist_ok=True)
            JAR.path_in(tmp_path).write_bytes(answer)

        artefact = SimpleNamespace(artifact=lambda: SimpleNamespace(resolve=resolve))
        project = SimpleNamespace(at_version=lambda _version: artefact)
        context = SimpleNamespace(project=lambda _group, _artefact: project)
        monkeypatch.setattr("jgo.maven.MavenContext", lambda **_options: context)
        monkeypatch.setattr(kafka_jars, "read_pinned_jars", lambda: [JAR])
        return asked

    return set_answer


def say_nothing(_message: str) -> None:
    pass


def test_the_pinned_class_path_is_one_version_of_each_artefact() -> None:
    jars = read_pinned_jars()
    assert len({(jar.group, jar.artefact) for jar in jars}) == len(jars) == 46
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {"4.2.1"}


def test_a_missing_jar_is_fetched_and_told(remote: Any, tmp_path: Path) -> None:
    remote(BODY)
    told: list[str] = []
    assert resolve_jars(tmp_path, told.append) == [tmp_path / "org/example/thing/1.0/thing-1.0.jar"]
    assert told == ["fetching Apache Kafka: 1 of 1 jars, thing 1.0"]


def test_an_intact_jar_is_not_fetched_again(remote: Any, tmp_path: Path) -> None:
    asked = remote(BODY)
    resolve_jars(tmp_path, say_nothing)
    resolve_jars(tmp_path, say_nothing)
    assert len(asked) == 1


def test_a_half_downloaded_jar_is_fetched_again(remote: Any, tmp_path: Path) -> None:
    asked = remote(BODY)
    JAR.path_in(tmp_path).parent.mkdir(parents=True)
    JAR.path_in(tmp_path).write_bytes(BODY[:3])
    resolve_jars(tmp_path, say_nothing)
    assert len(asked) == 1
    assert JAR.path_in(tmp_path).read_bytes() == BODY


def test_without_a_network_the_missing_artefact_is_named(remote: Any, tmp_path: Path) -> None:
    remote(RuntimeError("no route"))
    with pytest.raises(UnavailableError, match=r"org\.example:thing:1\.0.*network.*no route"):
        resolve_jars(tmp_path, say_nothing)


def test_a_jar_that_is_not_the_pinned_one_is_refused_and_not_kept(remote: Any, tmp_path: Path) -> None:
    remote(b"another jar")
    with pytest.raises(ChecksumMismatchError, match=r"org\.example:thing:1\.0"):
        resolve_jars(tmp_path, say_nothing)
    assert not JAR.path_in(tmp_path).exists()


def test_a_full_disk_is_a_clear_error(remote: Any, tmp_path: Path) -> None:
    remote(OSError(28, "No space left on device"))
    with pytest.raises(ConfigurationError, match=r"jar cache .*No space left"):
        resolve_jars(tmp_path, say_nothing)
