"""`headrace results --audit` and the cuts of `headrace models history`, against real servers."""

import json
import time

import pytest
from kafka import KafkaProducer
from pydantic import SecretStr

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from model_store.live_versions import LiveVersions
from producers.topics import TopicAdmin
from schemas.headers import encode_result_headers
from schemas.settings import RedisSettings
from schemas.version_cuts import VersionCut, encode_cut
from tests.fakes.pipeline_topics import make_pipeline

MODEL = "m"
START_MS = 1_700_000_000_000


@pytest.fixture
def pipeline(stack, unique):
    return make_pipeline(stack.bootstrap, unique)


@pytest.fixture
def redis(stack, unique):
    return RedisSettings(url=SecretStr(stack.redis_url), prefix=unique.lower().replace(".", "-")[:40])


@pytest.fixture
def run(pipeline, redis, tmp_path, capsys):
    """Run a command line against the pipeline and return its exit code and what it printed."""
    config = tmp_path / "headrace.yaml"
    groups = {
        "kafka": {"bootstrap": pipeline.kafka.bootstrap},
        "topics": pipeline.topics.model_dump(mode="json"),
        "redis": {"url": redis.url.get_secret_value(), "prefix": redis.prefix},
        "model": {"name": MODEL},
    }
    config.write_text(json.dumps(groups))

    def run_it(*arguments):
        code = main([*map(str, arguments), "--config", str(config)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_it


def send(pipeline, records):
    producer = KafkaProducer(bootstrap_servers=pipeline.kafka.bootstrap)
    for topic, key, value, headers in records:
        producer.send(topic, value, key, headers=headers, partition=0)
    producer.flush(10)
    producer.close(timeout=5)


def answer(pipeline, offset, epoch, version):
    """A result of a request that was appended ten milliseconds after the one before it."""
    source = {"topic": pipeline.topics.requests[0], "partition": 0, "offset": offset}
    body = {
        "status": "ok",
        "output": 1,
        "source": source,
        "source_timestamp_ms": START_MS + 10 * offset,
        "timings": {"queue_ms": 0.0, "model_ms": 0.0, "batch_size": 1},
    }
    headers = [*encode_result_headers(MODEL, version, epoch, "fp32"), ("ce_id", b"%d" % offset)]
    return (pipeline.topics.results, b"k", json.dumps(body).encode(), headers)


def record_cut(pipeline, epoch, offset):
    cut = VersionCut(MODEL, pipeline.topics.requests[0], 0, epoch, offset, START_MS)
    return (pipeline.topics.control, *encode_cut(cut), [])


@pytest.fixture
def history(pipeline, redis):
    """One version from the start, another from offset 3 on by a recorded cut, a third exactly from offset 6 on."""
    versions = LiveVersions(redis)
    versions.move(MODEL, lambda present: present.with_activation("v1", 0, START_MS))
    versions.move(MODEL, lambda present: present.with_activation("v2", 1, START_MS + 25))
    versions.move(
        MODEL, lambda present: present.with_activation("v3", 2, START_MS + 40, effective_from_ms=START_MS + 60)
    )
    versions.close()
    answers = [answer(pipeline, offset, 1 + offset // 3, f"v{1 + offset // 3}") for offset in range(9)]
    send(pipeline, [record_cut(pipeline, 1, 0), record_cut(pipeline, 2, 3), *answers])


@pytest.mark.usefixtures("history")
def test_a_history_that_was_cut_where_it_should_be_is_proven(pipeline, run):
    code, out, _ = run("results", "--audit", "--format", "jsonl")
    report = json.loads(out)
    assert (code, report["clean"], report["records"]) == (ExitCode.OK, True, 9)
    assert report["checked"] == ["outcomes", "timeline", f"2 cuts on {pipeline.topics.control}"]
    assert [
        (cut["epoch"], cut["mode"], cut["offset"], cut["due_offset"], cut["verdict"]) for cut in report["cuts"]
    ] == [
        (1, "now", 0, 0, "proven, oldest kept"),
        (2, "now", 3, 3, "proven"),
        (3, "exact", 6, 6, "proven"),
    ]
    assert "clean" in run("results", "--audit")[1]


@pytest.mark.usefixtures("history")
def test_cuts_that_lie_elsewhere_are_named_and_the_topic_alone_cannot_know(pipeline, run):
    # A reader that waits for nothing sees what is there: these come behind all others of their partition.
    send(pipeline, [answer(pipeline, 9, 3, "v3"), answer(pipeline, 10, 4, "v1")])
    code, out, _ = run("results", "--audit")
    assert code == ExitCode.FAILED
    assert "10 met epoch 4, which nobody decided" in " ".join(out.split())
    code, out, _ = run("results", "--audit", "--no-timeline", "--format", "jsonl")
    assert (code, json.loads(out)["checked"]) == (ExitCode.OK, ["outcomes"])
    send(pipeline, [answer(pipeline, 11, 3, "v3")])
    code, out, _ = run("results", "--audit", "--no-timeline", "--format", "jsonl")
    assert (code, list(json.loads(out)["findings"])) == (ExitCode.FAILED, ["wrong_version"])


@pytest.mark.usefixtures("history")
def test_the_history_of_a_model_shows_where_each_partition_was_cut(pipeline, run):
    code, out, _ = run("models", "history", MODEL)
    topic = pipeline.topics.requests[0]
    assert code == ExitCode.OK
    assert f"{topic}[0]@0" in out
    assert f"{topic}[0]@3" in out


@pytest.mark.usefixtures("history")
def test_a_history_whose_cuts_cannot_be_read_is_shown_without_them(pipeline, run):
    with TopicAdmin(pipeline.kafka) as admin:
        admin._client.delete_topics([pipeline.topics.control])
    give_up_at = time.monotonic() + 20
    while "cuts are left out" not in (shown := run("models", "history", MODEL))[2]:
        assert time.monotonic() < give_up_at, shown
    assert shown[0] == ExitCode.OK
    assert "v3" in shown[1]


def test_the_audit_takes_no_option_that_would_leave_outcomes_out(run):
    code, _, error = run("results", "--audit", "--id", "a")
    assert (code, "--audit looks at every outcome" in error) == (ExitCode.USAGE, True)
