"""Taking records in: limits, tombstones, shapes, budget and deadlines."""

import struct

import pytest

from schemas.errors import EnvelopeError
from schemas.records import JSON, NPY, SAFETENSORS, Stage
from schemas.settings import LimitSettings
from stream_workers.batching.deadlines import DeadlineWatch
from stream_workers.batching.intake import Intake, shape_key
from stream_workers.batching.intake_budget import IntakeBudget
from stream_workers.batching.work import Rejected, Skipped
from tests.unit.stream_workers.builders import VERSION, answered, item, request

LIMITS = LimitSettings(payload_bytes=100, key_bytes=10, header_bytes=50)
OWNED = {("requests", 0): 7}


def take(one: object, faults: dict[int, EnvelopeError] | None = None) -> object:
    (taken,) = Intake(LIMITS).take_in([one], faults or {}, OWNED, VERSION, 1.0)  # type: ignore[list-item]  # a request
    return taken.outcome


def test_a_good_record_goes_on_without_an_outcome() -> None:
    (taken,) = Intake(LIMITS).take_in([request()], {}, OWNED, VERSION, 1.0)
    assert (taken.outcome, taken.assignment, taken.polled_at, taken.shape_key) == (None, 7, 1.0, JSON)


def test_a_tombstone_is_skipped() -> None:
    assert isinstance(take(request(payload=None)), Skipped)


@pytest.mark.parametrize(
    ("record", "code", "named"),
    [
        (request(payload=b""), "invalid_input", "empty"),
        (request(payload=b"x" * 101), "too_large", "limits.payload_bytes"),
        (request(key=b"k" * 11), "too_large", "limits.key_bytes"),
        (request(headers=[("h", b"v" * 50)]), "too_large", "limits.header_bytes"),
        (request(headers=[("", b"")] * 6), "too_large", "limits.header_bytes"),
    ],
)
def test_what_is_over_a_limit_is_refused_by_name(record: object, code: str, named: str) -> None:
    outcome = take(record)
    assert isinstance(outcome, Rejected)
    assert (outcome.error.stage, outcome.error.code) == (Stage.VALIDATE, code)
    assert named in outcome.error.message


def test_the_largest_allowed_payload_passes() -> None:
    assert take(request(payload=b"x" * 100)) is None


def test_an_unreadable_envelope_is_refused() -> None:
    outcome = take(request(), {0: EnvelopeError("header ce_specversion: '9'")})
    assert isinstance(outcome, Rejected)
    assert (outcome.error.stage, outcome.error.code) == (Stage.DECODE, "envelope")


def test_a_record_of_a_partition_that_is_not_ours_is_left_out() -> None:
    assert Intake(LIMITS).take_in([request(partition=3)], {}, OWNED, VERSION, 1.0) == []


def test_tensors_of_one_dtype_and_shape_share_a_key() -> None:
    def npy(shape: str, data: bytes) -> bytes:
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data

    one, two, other = npy("(2,)", b"12345678"), npy("(2,)", b"abcdefgh"), npy("(3,)", b"123456781234")
    assert shape_key(NPY, one) == shape_key(NPY, two) != shape_key(NPY, other)
    assert shape_key(NPY, b"\x93NUMPY\x01\x00\xff\xff") == NPY
    assert shape_key(SAFETENSORS, b"\xff" * 8 + b"{}") == SAFETENSORS


def test_a_full_partition_pauses_alone_and_resumes_at_half() -> None:
    budget = IntakeBudget(100)
    a, b = ("t", 0), ("t", 1)
    assert budget.plan({a: 50, b: 10}) == ([a], [])
    assert budget.plan({a: 30, b: 10}) == ([], [])
    assert budget.plan({a: 25, b: 10}) == ([], [a])


def test_pausing_is_planned_anew_after_a_rebalance() -> None:
    budget = IntakeBudget(100)
    a, b = ("t", 0), ("t", 1)
    budget.plan({a: 100, b: 0})
    budget.forget(a)
    assert budget.plan({a: 0, b: 0}) == ([], [])
    assert budget.plan({a: 60, b: 60}) == ([a, b], [])


def test_deadlines_come_due_soonest_first_and_only_for_the_unanswered() -> None:
    watch = DeadlineWatch()
    late, soon, done, never = (item(n, deadline_ms=ms) for n, ms in enumerate((300, 100, 50, 0)))
    watch.add([late, soon, answered(done), never])
    assert watch.take_expired(99) == []
    assert watch.take_expired(100) == [soon]
    assert watch.take_expired(1000) == [late]
