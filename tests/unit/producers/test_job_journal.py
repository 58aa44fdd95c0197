"""The journal of a batch job: what is read back after crashes, and what is refused."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from producers.job_journal import Answer, JobHeader, JobJournal
from producers.publish_frontier import PublishMark
from schemas.errors import ConfigurationError

ROWS = 5


def header(**changes) -> JobHeader:
    values = {
        "job_id": "job",
        "input": "in.jsonl",
        "fingerprint": "f",
        "rows": ROWS,
        "topics": ("requests", "results", "dead"),
        "request_starts": [("requests", 0, 10)],
        "outcome_starts": [("results", 0, 20)],
    }
    return JobHeader(**(values | changes))


def answer(row: int, **changes) -> Answer:
    return Answer(row, f"row {row}", **({"status": "ok", "output": msgspec.Raw(b'{"a":1}')} | changes))


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".out.journal"


def write(path, *, marked: bool = True) -> bytes:
    journal = JobJournal(path).open()
    journal.begin(header())
    journal.answer(answer(0))
    journal.answer(answer(3, status="expired", code="expired"))
    if marked:
        journal.mark(PublishMark(2, 4, {("requests", 0): 14}), {("results", 0): 22})
    journal.close()
    return path.read_bytes()


def test_a_new_journal_has_no_state(path):
    journal = JobJournal(path).open()
    assert journal.state is None
    journal.close()


def test_a_journal_is_read_back(path):
    write(path)
    journal = JobJournal(path).open()
    state = journal.state
    assert state is not None
    assert state.header == header()
    assert state.counts == {"ok": 1, "expired": 1}
    assert [state.is_answered(row) for row in range(ROWS)] == [True, False, False, True, False]
    assert state.marks == [PublishMark(2, 4, {("requests", 0): 14})]
    assert state.outcomes == {("results", 0): 22}
    assert journal.read_answer(state.places[0]) == answer(0)
    assert journal.read_answer(state.places[3]).code == "expired"
    journal.close()


def test_reading_outcomes_begins_at_the_start_of_the_job_without_a_mark(path):
    write(path, marked=False)
    journal = JobJournal(path).open()
    assert journal.state is not None
    assert journal.state.outcomes == {("results", 0): 20}
    journal.close()


def test_the_first_answer_of_a_row_counts(path):
    write(path)
    journal = JobJournal(path).open()
    journal.answer(answer(0, status="rejected"))
    assert journal.state is not None
    assert journal.state.counts == {"ok": 1, "expired": 1}
    assert journal.read_answer(journal.state.places[0]).status == "ok"
    journal.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 100_000), junk=st.binary(max_size=20))
def test_a_journal_cut_anywhere_is_read_up_to_its_last_whole_line(path, cut, junk):
    path.unlink(missing_ok=True)
    whole = write(path, marked=False)
    kept = whole[: cut % (len(whole) + 1)]
    path.write_bytes(kept + junk.replace(b"\n", b""))
    journal = JobJournal(path).open()
    lines = kept.count(b"\n")
    answered = 0 if journal.state is None else journal.state.answered
    assert (journal.state is None) == (lines == 0)
    assert answered == max(0, lines - 1)
    if journal.state is not None:
        journal.answer(answer(4))
        assert journal.read_answer(journal.state.places[4]) == answer(4)
    journal.close()


def test_what_is_appended_after_a_torn_line_is_read_back(path):
    path.write_bytes(write(path) + b'{"type":"answer","row":1')
    journal = JobJournal(path).open()
    journal.answer(answer(1))
    journal.close()
    journal = JobJournal(path).open()
    assert journal.state is not None
    assert journal.state.answered == 3
    journal.close()


def test_damage_before_a_mark_is_refused(path):
    whole = write(path)
    path.write_bytes(whole.replace(b'"row":0', b'"row":x'))
    with pytest.raises(ConfigurationError, match=r"damaged at byte \d+; use --restart"):
        JobJournal(path).open()


@pytest.mark.parametrize("text", [b'{"type":"mark","settled":0,"sent":0,"requests":[],"outcomes":[]}\n'])
def test_a_file_that_is_no_journal_is_refused(path, text):
    path.write_bytes(text)
    with pytest.raises(ConfigurationError, match="not a job journal"):
        JobJournal(path).open()


def test_a_restart_does_not_read_what_is_there(path):
    path.write_bytes(b"nonsense\n" * 3)
    journal = JobJournal(path).open(restart=True)
    journal.begin(header())
    journal.close()
    assert path.read_bytes().count(b"\n") == 1


def test_a_second_run_of_the_same_job_is_refused(path):
    write(path)
    journal = JobJournal(path).open()
    with pytest.raises(ConfigurationError, match="the same job is running"):
        JobJournal(path).open()
    journal.close()


def test_a_journal_in_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        JobJournal(tmp_path / "absent" / "j").open()
