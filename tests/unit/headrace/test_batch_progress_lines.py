import pytest

from headrace.cli.batch_command import PLAIN_PROGRESS_SECONDS, _print_now_and_then
from producers.batch_progress import Progress


def test_a_job_that_nobody_answers_says_so_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    show = _print_now_and_then(lambda: now[0])
    for seconds in (1.0, PLAIN_PROGRESS_SECONDS, PLAIN_PROGRESS_SECONDS + 1, 2 * PLAIN_PROGRESS_SECONDS):
        now[0] = seconds
        answered = 5 if seconds > PLAIN_PROGRESS_SECONDS else 0
        show(Progress(10, answered, 3, answered, 0, 0, 1.0, None))
    assert capsys.readouterr().err.splitlines() == [
        "0 of 10 rows, 3 in flight; does a worker serve the topic?",
        "5 of 10 rows, 3 in flight",
    ]
