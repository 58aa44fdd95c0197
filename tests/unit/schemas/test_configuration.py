"""Settings: the file, the variables, and what is refused."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from schemas.configuration import dump_settings, load_settings, restore_settings
from schemas.errors import ConfigurationError
from schemas.settings import KafkaSettings, ModelSettings, RedisSettings, Settings


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Write a file, patch the environment, and load."""
    for name in [name for name in os.environ if name.upper().startswith("HEADRACE_")]:
        monkeypatch.delenv(name)

    def load_them(text: str | bytes | None = None, **variables: str):
        path = None
        if text is not None:
            path = tmp_path / "headrace.yaml"
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return load_settings(path, os.environ)

    return load_them


def test_everything_has_a_default(load):
    settings = load()
    assert settings.kafka.bootstrap == "127.0.0.1:9092"
    assert settings.topics.requests == ("headrace.requests",)


def test_variables_win_over_the_file(load):
    settings = load("kafka: {bootstrap: 'file:1', request_timeout_ms: 2000}", HEADRACE_KAFKA__BOOTSTRAP="variable:2")
    assert settings.kafka.bootstrap == "variable:2"
    assert settings.kafka.request_timeout_ms == 2000


def test_the_file_can_be_named_by_a_variable(load, tmp_path):
    path = tmp_path / "named.yaml"
    path.write_text("worker: {group: blue}")
    assert load(HEADRACE_CONFIG=str(path)).worker.group == "blue"


def test_a_relative_store_is_resolved_against_its_file(load, tmp_path):
    assert load("store: {root: models}").store.root == tmp_path / "models"


def test_an_empty_file_changes_nothing(load):
    assert load("").model_dump() == load("worker:").model_dump() == load().model_dump()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafka: {bootstrap: a}\nkafka: {bootstrap: b}", "'kafka' is given twice"),
        ("kafka:\n  bootstrap: a\n  bootstrap: b", "'bootstrap' is given twice"),
        ("kafka: {bootstrp: a}", "did you mean bootstrap"),
        ("kafak: {}", "did you mean kafka"),
        ("kafka: {request_timeout_ms: 5}", "kafka.request_timeout_ms.*got 5"),
        ("- a\n- b", "top level must be a mapping"),
        ("1: {}", "top level must be a mapping"),
        ("a: [", "not valid YAML"),
        ("a: !!python/object:os.system {}", "not valid YAML"),
        (b"\xff\xfe\x00", "not valid YAML"),
        ("[" * 1500, "not valid YAML"),
        ("topics: {requests: [a], results: a}", "loop"),
        ("topics: {requests: []}", "topics.requests"),
        ("topics: {results: 'a b'}", "topics.results"),
        ("worker: {drain_seconds: 50}", "fifth of max_poll_interval_ms"),
        ("kafka: {security_protocol: SASL_SSL}", "sasl_username"),
        ("#" * (1 << 20) + "\n", "larger than"),
    ],
)
def test_a_faulty_file_is_refused_and_the_place_is_named(load, text, message):
    with pytest.raises(ConfigurationError, match=message) as raised:
        load(text)
    assert "headrace.yaml" in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"absent.yaml.*No such file"):
        load_settings(tmp_path / "absent.yaml", {})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("HEADRACE_KAFKA__BOOTSTRP", "HEADRACE_KAFKA__BOOTSTRAP"),
        ("HEADRACE_KAFKA_BOOTSTRAP", "HEADRACE_KAFKA__BOOTSTRAP"),
        ("headrace_worker__grup", "HEADRACE_WORKER__GROUP"),
    ],
)
def test_a_misspelt_variable_is_refused_with_a_hint(load, name, hint):
    with pytest.raises(ConfigurationError, match=f"{name} is not a setting; did you mean {hint}"):
        load(**{name: "x"})


def test_a_secret_is_not_shown_when_it_is_wrong(load):
    with pytest.raises(ConfigurationError) as raised:
        load("redis: {url: [hunter2]}")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cache: {enabled: true, redis: true}", "cache.redis needs redis.url"),
        (
            "cache: {enabled: true, max_output_bytes: 2048}\nlimits: {result_bytes: 1024}",
            "cache.max_output_bytes.*2048",
        ),
        ("cache: {namespace: 'a:b'}", "cache.namespace"),
    ],
)
def test_a_cache_that_cannot_work_is_refused(load, text, message):
    with pytest.raises(ConfigurationError, match=message):
        load(text)


def test_the_cache_is_off_and_then_nothing_of_it_is_checked(load):
    assert not load("cache: {redis: true}\nlimits: {result_bytes: 1024}").cache.enabled


def test_a_wrong_variable_is_named(load):
    with pytest.raises(ConfigurationError, match="HEADRACE_KAFKA__REQUEST_TIMEOUT_MS"):
        load(HEADRACE_KAFKA__REQUEST_TIMEOUT_MS="soon")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HEADRACE_TOPICS__REQUESTS", "nope", "topics.requests: JSON is needed: a list.*got 'nope'"),
        ("headrace_topics__requests", "[", "headrace_topics__requests: topics.requests: JSON is needed"),
        ("HEADRACE_BATCHING__SIZE_BUCKETS", "1,2", "batching.size_buckets: JSON is needed: a list"),
        ("HEADRACE_MODEL__CLASSES", "a=b", "model.classes: JSON is needed: a mapping"),
        ("HEADRACE_WORKER", "3 members", "worker: JSON is needed: a mapping"),
        ("HEADRACE_WORKER", "3", "HEADRACE_WORKER: worker: "),
        ("HEADRACE_MODEL__VERSION", "", "HEADRACE_MODEL__VERSION: model.version: .*allowed are"),
        ("HEADRACE_MODEL__CLASSES__ECHO", "os.system", "HEADRACE_MODEL__CLASSES__ECHO: model.classes.echo"),
        ("headrace_worker__members", "0", "variable headrace_worker__members: worker.members"),
    ],
)
def test_a_faulty_variable_is_named_with_its_key_and_not_the_file(load, name, value, message):
    with pytest.raises(ConfigurationError, match=message) as raised:
        load("kafka: {bootstrap: a}", **{name: value})
    assert "headrace.yaml" not in str(raised.value)


def test_a_rule_over_a_group_names_every_place_that_had_a_say(load):
    with pytest.raises(
        ConfigurationError, match=r"headrace.yaml and variable HEADRACE_TOPICS__RESULTS: topics: .*loop"
    ):
        load("topics: {requests: [a]}", HEADRACE_TOPICS__RESULTS="a")


@pytest.mark.parametrize("group", ["worker: 3", "kafka: [a]", "redis: 'redis://user:hunter2@h:1/0'"])
def test_a_group_that_is_no_mapping_is_refused_though_a_variable_would_replace_it(load, group):
    with pytest.raises(ConfigurationError, match="a mapping of settings is needed") as raised:
        load(group, HEADRACE_WORKER__GROUP="g", HEADRACE_KAFKA__BOOTSTRAP="b:1", HEADRACE_REDIS__URL="redis://h")
    assert "hunter2" not in str(raised.value)


def test_no_credentials_of_a_url_are_shown(load):
    for variables in ({"HEADRACE_REDIS": '"redis://u:hunter2@h"'}, {"HEADRACE_MODEL__VERSION": "s3://u:hunter2@h"}):
        with pytest.raises(ConfigurationError) as raised:
            load(**variables)
        assert "hunter2" not in str(raised.value)


def test_a_variable_that_is_a_mapping_is_merged_with_the_file_key_by_key(load):
    settings = load("model: {classes: {a: 'x:A'}}", HEADRACE_MODEL__CLASSES='{"b": "x:B"}')
    assert settings.model.classes == {"a": "x:A", "b": "x:B"}


def test_model_classes_are_free_names(load):
    settings = load("model: {classes: {echo: 'package.module:Class'}}")
    assert settings.model.classes == {"echo": "package.module:Class"}
    with pytest.raises(ConfigurationError, match="classes"):
        load("model: {classes: {echo: 'os.system'}}")


def test_paths_in_settings_are_paths(load):
    assert load("kafka: {ssl_ca_file: ca.pem}").kafka.ssl_ca_file == Path("ca.pem")


def test_settings_carried_to_a_child_arrive_whole_with_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        kafka=KafkaSettings(sasl_password=SecretStr("hush"), sasl_username="u", ssl_ca_file=Path("/ca.pem")),
        redis=RedisSettings(url=SecretStr("redis://:pw@h:1/0")),
        model=ModelSettings(name="m", classes={"a": "x.y:Z"}, instances=3),
    )
    monkeypatch.setenv("HEADRACE_MODEL__NAME", "other")
    restored = restore_settings(dump_settings(settings))
    assert restored.model_dump() == settings.model_dump()
    assert restored.redis.url.get_secret_value() == "redis://:pw@h:1/0"
