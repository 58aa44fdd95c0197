"""Input, output and progress of a batch job."""

import json

import msgspec
import pytest
from pyarrow import parquet

from producers.batch_input import BatchInput
from producers.batch_output import check_output, rejects_path, write_output
from producers.batch_progress import measure_progress
from producers.job_journal import Answer
from producers.job_rows import answer_of, parse_row, request_id_of
from producers.sources.rows import RowOptions
from schemas.errors import ConfigurationError
from tests.fakes.kafka_pair import result

ANSWERS = [
    Answer(0, "a", "ok", msgspec.Raw(b'{"x":1}'), "m", "v1", 3),
    Answer(1, "b", "rejected", code="invalid_input", message="no"),
    Answer(2, "c", "expired", code="expired"),
    Answer(3, "d", "ok", msgspec.Raw(b"null"), "m", "v1", 3),
]


def test_lines_hold_the_answers_and_the_rest_lies_beside_them(tmp_path):
    write_output(ANSWERS, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(line["row"], line["id"], line["output"]) for line in lines] == [(0, "a", {"x": 1}), (3, "d", None)]
    rejects = [json.loads(line) for line in rejects_path(tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(line["row"], line["status"]) for line in rejects] == [(1, "rejected"), (2, "expired")]


def test_parquet_holds_the_answers_in_typed_columns(tmp_path):
    write_output(ANSWERS, tmp_path / "out.parquet")
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert rows[0] == {"row": 0, "id": "a", "output": '{"x":1}', "model": "m", "version": "v1", "epoch": 3}
    assert [row["row"] for row in rows] == [0, 3]


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_an_empty_job_leaves_empty_files(tmp_path, name):
    write_output([], tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "out.rejects.jsonl"])


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_a_failure_half_way_leaves_nothing_behind(tmp_path, name):
    def broken():
        yield ANSWERS[0]
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError):
        write_output(broken(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_output_of_unknown_kind_or_place_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\.jsonl or \.parquet"):
        check_output(tmp_path / "out.csv", (), tmp_path)
    with pytest.raises(ConfigurationError, match="is not a folder"):
        check_output(tmp_path / "absent" / "out.jsonl", (), tmp_path)


def test_no_file_that_is_written_may_be_the_input(tmp_path):
    source, link = tmp_path / "in.jsonl", tmp_path / "link.jsonl"
    source.write_text("1\n")
    link.symlink_to(source)
    for output, beside in ((source, ()), (link, ()), (tmp_path / "out.jsonl", (link,))):
        with pytest.raises(ConfigurationError, match="is the input"):
            check_output(output, beside, source)
    check_output(tmp_path / "out.jsonl", (tmp_path / "out.rejects.jsonl",), source)


def test_a_folder_of_images_has_no_columns(tmp_path):
    with pytest.raises(ConfigurationError, match="no column id"):
        BatchInput(tmp_path, RowOptions(100, id_column="id")).count()


def test_a_fingerprint_follows_the_content_and_the_columns(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("1\n")
    before = BatchInput(path, RowOptions(100)).fingerprint()
    assert BatchInput(path, RowOptions(100)).fingerprint() == before
    assert BatchInput(path, RowOptions(100, id_column="id")).fingerprint() != before
    path.write_text("2\n")
    assert BatchInput(path, RowOptions(100)).fingerprint() != before


def test_a_missing_input_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        BatchInput(tmp_path / "absent.jsonl", RowOptions(100)).fingerprint()


@pytest.mark.parametrize("text", [None, "", "job", "job-", "job-x", "job--1", "job-1.0", "other-1", b"job-\xff"])
def test_ids_of_others_are_no_rows(text):
    assert parse_row("job", text) is None


def test_a_row_is_found_again_in_its_request_id():
    assert parse_row("job", request_id_of("job", 7)) == 7
    assert parse_row("job", b"job-7") == 7


def test_an_answer_keeps_who_gave_it():
    answer = answer_of(result("job-1", model="m", version="v9", epoch=4), 1, "label")
    assert (answer.row, answer.label, answer.model, answer.version, answer.epoch) == (1, "label", "m", "v9", 4)


def test_the_remaining_time_counts_this_run_only():
    progress = measure_progress({"ok": 60, "unreadable": 1}, rows=100, in_flight=5, answered_before=41, seconds=2)
    assert progress.rows_per_second == 10
    assert progress.eta_seconds == pytest.approx(3.9)
    assert (progress.answered, progress.rejected) == (61, 1)


def test_the_remaining_time_is_unknown_before_the_first_answer():
    assert measure_progress({}, rows=10, in_flight=0, answered_before=0, seconds=0).eta_seconds is None
