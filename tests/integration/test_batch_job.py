"""A batch job against a real broker: every row answered, none paid for twice, in input order."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy
import pytest
from pyarrow import parquet
from pyarrow import table as arrow_table

from producers.batch_job import BatchJob
from producers.job_options import JobOptions
from schemas.errors import ConfigurationError, UnavailableError
from tests.fakes.echo_responder import EchoResponder
from tests.fakes.pipeline_topics import make_pipeline

RUN_JOB = """
import os, sys
from pathlib import Path
from producers.batch_job import BatchJob
from producers.job_options import JobOptions
from schemas.configuration import load_settings
BatchJob(load_settings(None, os.environ), JobOptions(Path(sys.argv[1]), Path(sys.argv[2]), window=200)).run()
"""


@pytest.fixture
def settings(stack, unique):
    return make_pipeline(stack.bootstrap, unique)


@pytest.fixture
def folder(tmp_path):
    with (tmp_path / "in.jsonl").open("w") as file:
        for row in range(300):
            file.write(json.dumps({"n": row, "name": f"n{row}"}) + "\n")
    return tmp_path


def options(folder, **changes) -> JobOptions:
    return JobOptions(**({"input": folder / "in.jsonl", "output": folder / "out.jsonl"} | changes))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def requests_topic(settings) -> str:
    return settings.topics.requests[0]


def test_answers_are_written_in_input_order_and_the_rest_beside_them(settings, folder):
    with (folder / "in.jsonl").open("a") as file:
        file.write("not json\n")

    def decide(request):
        row = json.loads(request.payload)["n"]
        return {7: "reject", 9: "expired"}.get(row % 100, "ok")

    moments = []
    with EchoResponder(settings, requests_topic(settings), decide):
        summary = BatchJob(settings, options(folder, id_column="name", model="echo"), on_progress=moments.append).run()
    assert (summary.rows, summary.ok, summary.expired, summary.rejected, summary.published) == (301, 294, 3, 4, 300)
    lines = read_lines(folder / "out.jsonl")
    assert [line["row"] for line in lines] == [row for row in range(300) if row % 100 not in (7, 9)]
    assert lines[0] == {
        "row": 0,
        "id": "n0",
        "output": {"n": 0, "name": "n0"},
        "model": "echo",
        "version": "v1",
        "epoch": 1,
    }
    rejects = read_lines(folder / "out.rejects.jsonl")
    assert [(line["row"], line["code"]) for line in rejects[:2]] == [(7, "invalid_input"), (9, "expired")]
    assert (rejects[-1]["row"], rejects[-1]["code"]) == (300, "unreadable")
    assert moments[-1].answered == 301
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl", "out.rejects.jsonl"]


def test_an_interrupted_job_goes_on_without_paying_twice(settings, folder):
    def interrupt(progress):
        if progress.answered >= 100:
            raise KeyboardInterrupt

    job = options(folder, window=50)
    with EchoResponder(settings, requests_topic(settings)) as responder:
        with pytest.raises(KeyboardInterrupt):
            BatchJob(settings, job, on_progress=interrupt).run()
        assert not (folder / "out.jsonl").exists()
        summary = BatchJob(settings, job).run()
    assert summary.ok == 300
    assert summary.published < 300
    assert len(responder.seen) == 300
    assert set(responder.seen.values()) == {1}
    assert [line["row"] for line in read_lines(folder / "out.jsonl")] == list(range(300))


def test_a_killed_job_goes_on_without_paying_twice(settings, folder):
    with (folder / "in.jsonl").open("w") as file:
        for row in range(20_000):
            file.write(json.dumps({"n": row}) + "\n")
    environment = os.environ | {
        "HEADRACE_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
        "HEADRACE_TOPICS__REQUESTS": json.dumps(settings.topics.requests),
        "HEADRACE_TOPICS__RESULTS": settings.topics.results,
        "HEADRACE_TOPICS__DEAD_LETTERS": settings.topics.dead_letters,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    with EchoResponder(settings, requests_topic(settings)) as responder:
        for enough in (500, 4000):
            command = [sys.executable, "-c", RUN_JOB, str(folder / "in.jsonl"), str(folder / "out.jsonl")]
            process = subprocess.Popen(command, env=environment)
            deadline = time.monotonic() + 60
            while len(responder.seen) < enough and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            assert process.wait(10) == -signal.SIGKILL, "the job was done before it could be killed"
        summary = BatchJob(settings, options(folder)).run()
    assert (summary.rows, summary.ok) == (20_000, 20_000)
    assert len(responder.seen) == 20_000
    assert set(responder.seen.values()) == {1}


def test_a_row_written_without_the_journals_knowledge_is_found_in_the_topic(settings, folder):
    def interrupt(progress):
        raise KeyboardInterrupt

    job = BatchJob(settings, options(folder, window=50), on_progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        job.run()
    # The journal forgets everything but the job itself, as after a crash before the first mark.
    header = job.journal_path.read_bytes().split(b"\n")[0] + b"\n"
    job.journal_path.write_bytes(header)
    with EchoResponder(settings, requests_topic(settings)) as responder:
        summary = BatchJob(settings, options(folder)).run()
    assert summary.published == 250
    assert set(responder.seen.values()) == {1}
    assert summary.ok == 300


def test_a_changed_input_is_refused_until_a_restart(settings, folder):
    silent = options(folder, stall_seconds=0.3)
    with pytest.raises(UnavailableError, match="no outcome"):
        BatchJob(settings, silent).run()
    with (folder / "in.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(ConfigurationError, match=r"in\.jsonl.* changed since.*--restart"):
        BatchJob(settings, silent).run()
    with EchoResponder(settings, requests_topic(settings)):
        assert BatchJob(settings, options(folder, restart=True)).run().ok == 301


def test_a_finished_output_is_not_overwritten_by_accident(settings, folder):
    with EchoResponder(settings, requests_topic(settings)):
        BatchJob(settings, options(folder)).run()
        with pytest.raises(ConfigurationError, match="exists already"):
            BatchJob(settings, options(folder)).run()


def test_parquet_rows_become_parquet_answers(settings, folder):
    parquet.write_table(arrow_table({"id": ["a", "b"], "n": [1, 2]}), folder / "in.parquet")
    job = options(folder, input=folder / "in.parquet", output=folder / "out.parquet", id_column="id")
    with EchoResponder(settings, requests_topic(settings)):
        BatchJob(settings, job).run()
    rows = parquet.read_table(folder / "out.parquet").to_pylist()
    assert [(row["row"], row["id"], json.loads(row["output"])) for row in rows] == [
        (0, "a", {"id": "a", "n": 1}),
        (1, "b", {"id": "b", "n": 2}),
    ]


def test_arrays_and_images_are_inputs_too(settings, folder):
    numpy.save(folder / "in.npy", numpy.arange(6.0).reshape(3, 2))
    pictures = folder / "pictures"
    pictures.mkdir()
    for name in ("b.jpg", "a.jpg"):
        (pictures / name).write_bytes(b"\xff\xd8\xff" + name.encode())
    with EchoResponder(settings, requests_topic(settings)):
        assert BatchJob(settings, options(folder, input=folder / "in.npy")).run().ok == 3
        output = folder / "pictures.jsonl"
        assert BatchJob(settings, options(folder, input=pictures, output=output)).run().ok == 2
    assert [line["id"] for line in read_lines(output)] == ["a.jpg", "b.jpg"]
