"""The commands around requests and outcomes, as a user runs them."""

import json
import time

import pytest

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from tests.fakes.echo_responder import EchoResponder
from tests.fakes.pipeline_topics import make_pipeline


@pytest.fixture
def settings(stack, unique):
    return make_pipeline(stack.bootstrap, unique)


@pytest.fixture
def run(settings, tmp_path, capsys):
    """Run a command line against the pipeline and return its exit code and what it printed."""
    topics = settings.topics
    config = tmp_path / "headrace.yaml"
    config.write_text(
        json.dumps(
            {
                "kafka": {"bootstrap": settings.kafka.bootstrap},
                "topics": {
                    "requests": list(topics.requests),
                    "results": topics.results,
                    "dead_letters": topics.dead_letters,
                },
            }
        )
    )

    def run_it(*arguments):
        code = main([*map(str, arguments), "--config", str(config)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_it


def test_texts_are_published_answered_and_printed(settings, run):
    code, out, _ = run("publish", "text", "one", "[red]two")
    assert (code, out.split(": ")[1].strip()) == (0, "2 written, 0 failed, 0 faulty, 1 streams, 0 broken")
    with EchoResponder(settings, settings.topics.requests[0]):
        code, out, _ = run(
            "results", "--follow", "--from", "earliest", "--count", "2", "--timeout", "20", "--format", "jsonl"
        )
    assert code == 0
    assert sorted(json.loads(line)["output"] for line in out.splitlines()) == [3, 8]
    assert run("results")[1].count(" ok ") == 2


def test_an_asked_id_decides_the_exit_code(settings, run):
    run("publish", "text", "fine", "bad")

    def decide(request):
        return "reject" if request.payload == b"bad" else "ok"

    with EchoResponder(settings, settings.topics.requests[0], decide):
        run("results", "--follow", "--from", "earliest", "--count", "2", "--timeout", "20")
    lines = [json.loads(line) for line in run("results", "--format", "jsonl")[1].splitlines()]
    by_status = {line["status"]: line["id"] for line in lines}
    assert run("results", "--id", by_status["ok"])[0] == ExitCode.OK
    assert run("results", "--id", by_status["rejected"])[0] == ExitCode.FAILED
    code, _, error = run("results", "--id", "unknown")
    assert (code, "no outcome of unknown" in error) == (ExitCode.UNAVAILABLE, True)
    began = time.monotonic()
    assert run("results", "--id", "unknown", "--timeout", "1")[0] == ExitCode.UNAVAILABLE
    assert time.monotonic() - began >= 1
    assert "no new outcome" in run("results", "--from", "latest")[2]
    code, out, _ = run("dead-letters", "replay", "--dry-run")
    assert (code, out.splitlines()[-1]) == (0, "1 matched, 0 sent, 0 skipped")
    code, out, _ = run("dead-letters", "replay", "--id", by_status["rejected"])
    assert (code, out.splitlines()[-1]) == (0, "1 matched, 1 sent, 0 skipped")


def test_a_broken_stream_is_reported_and_the_others_are_written(run, tmp_path):
    rows = tmp_path / "a.txt"
    rows.write_text("1\n2\n")
    code, out, _ = run("publish", "rows", rows, "--streams", "3", "--limit", "1")
    assert (code, "3 written" in out) == (0, True)
    code, out, error = run("publish", "video", rows, "--streams", "2")
    assert code == ExitCode.FAILED
    assert "2 streams, 2 broken" in out
    assert "a-1 broke after 0 items: cannot be opened" in error


def test_what_cannot_be_published_is_a_usage_error(run, tmp_path):
    assert run("publish", "rows", tmp_path / "absent.jsonl")[0] == ExitCode.USAGE
    assert run("publish", "images", tmp_path / "absent")[0] == ExitCode.USAGE
    assert run("publish", "text", "a", "--topic", "absent-topic")[0] == ExitCode.USAGE
    assert run("publish", "poem", "a")[0] == ExitCode.USAGE


def test_topics_are_created_once_and_described(settings, run):
    code, out, _ = run("topics", "create", "--partitions", "2")
    assert (code, out.count("exists")) == (0, 4), "requests, results, dead letters and shadow; control is new"
    code, out, _ = run("topics", "create", "--partitions", "3")
    assert (code, out.count("2 partitions instead of 3")) == (ExitCode.FAILED, 4)
    code, out, _ = run("topics", "describe")
    assert code == 0
    assert "LogAppen" in out


def test_a_batch_is_answered_in_order(settings, run, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"n":1}\nnope\n{"n":2}\n')
    with EchoResponder(settings, settings.topics.requests[0]):
        code, out, error = run("batch", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--model", "echo")
    assert code == ExitCode.FAILED
    assert "3 rows, 2 ok, 0 expired, 1 rejected" in out
    assert "out.rejects.jsonl" in error
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["output"] for line in lines] == [{"n": 1}, {"n": 2}]


def test_a_stalled_batch_says_how_to_go_on(run, tmp_path):
    (tmp_path / "in.jsonl").write_text("1\n")
    code, _, error = run("batch", tmp_path / "in.jsonl", tmp_path / "out.jsonl", "--stall-timeout", "0.3")
    assert code == ExitCode.UNAVAILABLE
    assert "is a worker running? Run the same command again" in error
