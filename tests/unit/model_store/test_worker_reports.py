import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.worker_reports import (
    MAX_CANDIDATE_BYTES,
    MAX_REASON_CHARS,
    MAX_REPORT_BYTES,
    Candidate,
    Refusal,
    WorkerReport,
    check_worker_id,
    clean_text,
    decode_candidate,
    decode_report,
    encode_candidate,
    encode_report,
    name_worker,
)
from schemas.errors import InvalidPointerError, UnsafeNameError

CANDIDATE = Candidate("0123456789abcdef", ("v1", "v2"), "ann@host", 5)
REPORT = WorkerReport("g.worker-0", 0, "host", 42, 3, ("v1",), ("v1", "v2"), None, CANDIDATE.id, None, 7)


def changed(value: Any, **changes: Any) -> bytes:
    return json.dumps({**asdict(value), **changes}).encode()


def test_what_is_written_is_read_back() -> None:
    refusing = REPORT.refusing(CANDIDATE.id, "wrong hash")

    assert decode_candidate(encode_candidate(CANDIDATE)) == CANDIDATE
    assert decode_report(encode_report(REPORT)) == REPORT
    assert decode_report(encode_report(refusing)) == refusing


def test_the_largest_values_that_can_be_made_can_be_read() -> None:
    wide, name = "\N{PILE OF POO}", "v" * 62
    candidate = Candidate("f" * 16, tuple(f"{n:02}{name}" for n in range(16)), wide * 80, 1 << 53)
    names = tuple(f"{n:02}{name}" for n in range(64))
    report = WorkerReport("w" * 320, 1 << 53, wide * 255, 1 << 53, 1 << 53, names, names, "f" * 16, "f" * 16, None, 1)
    report = replace(report, refused=Refusal("f" * 16, wide * MAX_REASON_CHARS))

    assert decode_candidate(encode_candidate(candidate)) == candidate
    assert decode_report(encode_report(report)) == report


def test_a_field_of_a_later_release_is_passed_over() -> None:
    assert decode_report(changed(REPORT, temperature=41)) == REPORT


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x", b"[]", b"{}", b"null", b"\x80\x04.", b"[" * 4000, b" " * (MAX_CANDIDATE_BYTES + 1),
        changed(CANDIDATE, id="../../x"), changed(CANDIDATE, id="0123456789ABCDEF"), changed(CANDIDATE, id=5),
        changed(CANDIDATE, versions=[]), changed(CANDIDATE, versions=["../v1"]), changed(CANDIDATE, versions="v1"),
        changed(CANDIDATE, versions=["v"] * 17), changed(CANDIDATE, by="x" * 81), changed(CANDIDATE, by="a\x1b[2J"),
        changed(CANDIDATE, by=None), changed(CANDIDATE, at_ms=-1), changed(CANDIDATE, at_ms=1 << 60),
        changed(CANDIDATE, at_ms=True), changed(CANDIDATE, at_ms=0.5),
    ],
)  # fmt: skip
def test_a_hostile_candidate_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPointerError):
        decode_candidate(data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x", b"[]", b"{}", b"null", b"\x80\x04.", b"[" * 9000, b" " * (MAX_REPORT_BYTES + 1),
        changed(REPORT, worker="a:b"), changed(REPORT, worker=""), changed(REPORT, worker="w" * 321),
        changed(REPORT, slot=-1), changed(REPORT, pid="1"), changed(REPORT, epoch=1 << 60),
        changed(REPORT, host="a\nb"), changed(REPORT, host="h" * 256), changed(REPORT, serving=["/etc"]),
        changed(REPORT, warm=["v"] * 65), changed(REPORT, ready="me"), changed(REPORT, preparing=1),
        changed(REPORT, refused="no"), changed(REPORT, refused={"candidate": CANDIDATE.id}),
        changed(REPORT, refused={"candidate": CANDIDATE.id, "reason": "a\x1b[2J"}),
        changed(REPORT, refused={"candidate": CANDIDATE.id, "reason": "x" * 301}),
    ],
)  # fmt: skip
def test_a_hostile_report_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPointerError):
        decode_report(data)


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_but_an_invalid_pointer(data: bytes) -> None:
    for decode in (decode_candidate, decode_report):
        with pytest.raises(InvalidPointerError):
            decode(data)


@given(st.text(max_size=2 * MAX_REASON_CHARS))
def test_any_reason_can_be_reported(reason: str) -> None:
    refusing = REPORT.refusing(CANDIDATE.id, reason)

    assert decode_report(encode_report(refusing)) == refusing
    assert refusing.ready is None


def test_a_reason_is_one_line_that_names_no_address() -> None:
    assert clean_text("weights differ\n  at\t0x7f00beef\x1b[2J", 80) == "weights differ at 0x… [2J"
    assert clean_text("x" * 90, 80) == "x" * 79 + "…"


def test_a_worker_is_named_by_its_group_its_name_and_its_slot() -> None:
    assert check_worker_id(name_worker("headrace", "gpu-1", 3)) == "headrace.gpu-1-3"
    with pytest.raises(UnsafeNameError):
        check_worker_id("a:b")
