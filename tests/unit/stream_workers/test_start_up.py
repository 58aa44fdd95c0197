"""What a start-up says while it waits."""

import pytest

from stream_workers.start_up import WaitLog


def test_the_same_reason_is_said_every_ten_seconds_and_another_one_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    say = WaitLog(lambda: now)
    for second, reason in [(0, "no Kafka"), (1, "no Kafka"), (2, "no topics"), (3, "no topics"), (12, "no topics")]:
        now = float(second)
        say(reason)
    said = capsys.readouterr().out
    assert (said.count("no Kafka"), said.count("no topics")) == (1, 2)
