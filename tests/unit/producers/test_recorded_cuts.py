import logging

import pytest

from producers.outcomes import Record
from producers.recorded_cuts import collect_cuts, decode_cuts, find_contradictions
from schemas.records import Position
from schemas.version_cuts import VersionCut, encode_cut


def cut(epoch: int, offset: int, *, partition: int = 0, model: str = "m") -> VersionCut:
    return VersionCut(model, "requests", partition, epoch, offset, 1)


def record(at: int, key: bytes | None, value: bytes | None) -> Record:
    return Record(Position("control", 0, at), 0, key, value, [])


def test_cuts_are_ordered_by_epoch_and_partition_for_one_model() -> None:
    cuts = [cut(1, 0), cut(2, 7), cut(2, 9, partition=1), cut(2, 5, model="other")]
    assert collect_cuts(cuts, "m") == {
        1: {("requests", 0): 0},
        2: {("requests", 0): 7, ("requests", 1): 9},
    }


def test_of_two_cuts_the_last_holds_and_both_are_told() -> None:
    cuts = [cut(2, 7), cut(2, 7), cut(2, 8), cut(2, 7, model="other")]
    assert collect_cuts(cuts, "m") == {2: {("requests", 0): 8}}
    assert find_contradictions(cuts) == ["requests-0: epoch 2 of m is cut at 8 and at 7"]


def test_a_record_that_is_no_cut_is_passed_over_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert decode_cuts([record(0, b"x", b"y"), record(1, *encode_cut(cut(3, 4)))]) == [cut(3, 4)]
    assert "control-0-0: not a cut" in caplog.text
