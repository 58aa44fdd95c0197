"""What a reader gets: results and dead letters in the wire contract."""

import msgspec
import pytest

from producers.record_size import count_record_bytes
from schemas.headers import ERROR_PREFIX, MAX_TRACE_CHARS, decode_dead_letter, decode_result
from schemas.records import ErrorDetail, Position, Stage, Status, Timings
from schemas.settings import LimitSettings, Settings
from schemas.version_cuts import VersionCut, decode_cut
from stream_workers.batching.work import Answer, Expired, Outcome, Rejected, Skipped, WorkItem
from stream_workers.kafka.outcome_encoding import OutcomeEncoder, OutRecord
from tests.unit.stream_workers.builders import VERSION, request

AT = Position("headrace.results", 2, 9)
REJECTED = Rejected(
    ErrorDetail(stage=Stage.PREPROCESS, code="invalid_input", error_class="E", message="no", attempts=2), VERSION
)


def encode(outcome: Outcome, *, result_bytes: int = 4096, partitions: int = 8, **varied: object) -> OutRecord | None:
    settings = Settings(limits=LimitSettings(result_bytes=result_bytes))
    counts = {settings.topics.results: partitions, settings.topics.dead_letters: partitions}
    encoder = OutcomeEncoder(settings, "worker-0", counts, lambda _: "bf16", wall_clock=lambda: 5.0)
    one = WorkItem(request(7, 3, **varied), 1, 0.0, "s", 10)  # type: ignore[arg-type]  # builders check the names
    one.outcome = outcome
    return encoder.encode(one)


def sure(record: OutRecord | None) -> OutRecord:
    if record is None:
        raise AssertionError("no record")
    return record


def test_an_answer_reads_back_whole() -> None:
    record = sure(encode(Answer(b'{"a":[1,2]}', VERSION, Timings(1.25, 2.5, 4)), traceparent="00-x"))
    result = decode_result(record.key, record.value or b"", record.headers, AT)
    assert (record.topic, record.partition, record.key) == ("headrace.results", 3, b"k")
    assert (result.request_id, result.status, result.source) == ("requests-3-7", Status.OK, Position("requests", 3, 7))
    assert (result.model, result.version, result.epoch, result.traceparent) == ("m", "v1", 1, "00-x")
    assert result.timings == Timings(1.25, 2.5, 4)
    assert result.output is not None
    assert msgspec.json.decode(result.output) == {"a": [1, 2]}


def test_records_of_other_sources_and_batches_do_not_share_what_is_cached() -> None:
    encoder = OutcomeEncoder(Settings(), "w", {}, lambda _: "fp32")
    for offset, partition, batch in [(0, 0, 1), (1, 1, 1), (2, 0, 2)]:
        one = WorkItem(request(offset, partition), 1, 0.0, "s", 1)
        one.outcome = Answer(b"1", VERSION, Timings(0.5, 0.5, batch))
        record = sure(encoder.encode(one))
        result = decode_result(record.key, record.value or b"", record.headers, AT)
        assert (result.source.offset, result.source.partition, result.timings.batch_size) == (offset, partition, batch)


def test_an_answer_says_when_its_own_request_was_appended_and_what_the_version_computes_in() -> None:
    encoder = OutcomeEncoder(Settings(), "w", {}, lambda version: {"v1": "int8"}[version])
    shared = Answer(b"1", VERSION, Timings(0.5, 0.5, 2))
    for offset, appended in [(4, 1_700_000_000_123), (5, 1_700_000_000_456)]:
        one = WorkItem(request(offset, 0, timestamp_ms=appended), 1, 0.0, "s", 1)
        # One answer for two requests, as from the result cache.
        one.outcome = shared
        record = sure(encoder.encode(one))
        result = decode_result(record.key, record.value or b"", record.headers, AT)
        assert (result.source.offset, result.source_timestamp_ms, result.precision) == (offset, appended, "int8")


def test_the_precision_is_asked_until_it_is_known_and_then_no_more() -> None:
    asked = iter(["", "bf16"])
    encoder = OutcomeEncoder(Settings(), "w", {}, lambda _: next(asked))
    found = []
    for outcome in (Expired(VERSION, Timings(1.0, 0.0, 0)), *[Answer(b"1", VERSION, Timings(1.0, 1.0, 1))] * 2):
        one = WorkItem(request(1, 0), 1, 0.0, "s", 1)
        one.outcome = outcome
        record = sure(encoder.encode(one))
        found.append(decode_result(record.key, record.value or b"", record.headers, AT).precision)
    assert found == ["", "bf16", "bf16"]


def test_a_dead_letter_names_the_precision() -> None:
    record = sure(encode(REJECTED))
    assert decode_dead_letter(record.key, record.value, record.headers, AT).precision == "bf16"


def test_an_expired_request_has_a_result_without_output() -> None:
    record = sure(encode(Expired(VERSION, Timings(1.0, 0.0, 0))))
    result = decode_result(record.key, record.value or b"", record.headers, AT)
    assert (result.status, result.timings.batch_size) == (Status.EXPIRED, 0)
    assert result.output in (None, msgspec.Raw(b"null"))


def test_a_cut_is_a_record_of_the_control_topic() -> None:
    cut = VersionCut("m", "requests", 3, 2, 7, 5)
    record = sure(OutcomeEncoder(Settings(), "w", {}, lambda _: "fp32").encode(cut))
    assert (record.topic, record.partition, record.headers) == ("headrace.control", 0, [])
    assert decode_cut(record.key, record.value) == cut


def test_a_tombstone_has_no_record() -> None:
    assert encode(Skipped()) is None


def test_fewer_result_partitions_leave_the_choice_to_the_key() -> None:
    assert sure(encode(Answer(b"1", VERSION, Timings(0, 0, 1)), partitions=2)).partition == -1


def test_a_dead_letter_keeps_key_value_and_headers_and_says_why() -> None:
    record = sure(encode(REJECTED, payload=b"bad", headers=[("ce_id", b"x"), (ERROR_PREFIX + "code", b"forged")]))
    letter = decode_dead_letter(record.key, record.value, record.headers, AT)
    assert (letter.key, letter.payload, letter.source) == (b"k", b"bad", Position("requests", 3, 7))
    assert letter.headers == (("ce_id", b"x"), ("x-forwarded-" + ERROR_PREFIX + "code", b"forged"))
    assert letter.error == REJECTED.error
    assert (letter.group, letter.worker, letter.version, letter.time_ms) == ("headrace", "worker-0", "v1", 5000)
    assert not letter.payload_omitted


@pytest.mark.parametrize(
    "varied",
    [
        {"payload": b"x" * 5000},
        {"key": b"k" * 70_000},
        {"headers": [("h", b"v" * 5000)]},
        {"headers": [("", None)] * 20_000},
        {"headers": [("\u4e00" * 1000, b"")] * 50},
        {"headers": [(ERROR_PREFIX, b"")] * 10_000},
    ],
)
def test_a_dead_letter_always_fits(varied: dict[str, object]) -> None:
    record = sure(encode(REJECTED, **varied))
    headers = [(name, text if isinstance(text, bytes) else b"") for name, text in record.headers]
    assert count_record_bytes(record.key, record.value, headers) <= LimitSettings(result_bytes=4096).outcome_bytes
    assert decode_dead_letter(record.key, record.value, headers, AT).payload_omitted


@pytest.mark.parametrize(
    "headers", [[("", None)] * 400, [(ERROR_PREFIX, b"")] * 100, [("\u4e00" * 100, b"")] * 13, [("h", b"v" * 2000)] * 2]
)
def test_a_dead_letter_fits_with_as_many_headers_as_it_may_keep(headers: list[tuple[str, bytes]]) -> None:
    record = sure(encode(REJECTED, payload=b"", headers=headers))
    kept = [(name, text if isinstance(text, bytes) else b"") for name, text in record.headers]
    assert count_record_bytes(record.key, record.value, kept) <= LimitSettings(result_bytes=4096).outcome_bytes
    assert not decode_dead_letter(record.key, record.value, kept, AT).payload_omitted


def test_the_largest_answer_fits_with_the_largest_key_id_and_trace_context() -> None:
    answer = Answer(b"1" * 4096, VERSION, Timings(1.25, 2.5, 4))
    record = sure(encode(answer, key=b"k" * LimitSettings().key_bytes, traceparent="\u4e00" * MAX_TRACE_CHARS))
    headers = [(name, text if isinstance(text, bytes) else b"") for name, text in record.headers]
    limits = LimitSettings(result_bytes=4096, header_bytes=1)
    assert count_record_bytes(record.key, record.value, headers) <= limits.outcome_bytes


def test_an_answer_over_the_limit_becomes_a_dead_letter() -> None:
    record = sure(encode(Answer(b"1" * 5000, VERSION, Timings(0, 0, 1))))
    letter = decode_dead_letter(record.key, record.value, record.headers, AT)
    assert (letter.error.stage, letter.error.code) == (Stage.EMIT, "invalid_output")
    assert "limits.result_bytes" in letter.error.message
