"""Bad input through a real worker: each bad record becomes exactly one dead letter, and its neighbours never notice."""

import io
import json
import re
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from PIL import Image

from producers.outcomes import Outcome
from producers.topic_layout import plan_topics
from producers.topics import TopicAdmin
from schemas.headers import ERROR_PREFIX
from schemas.records import JPEG, JSON, NPY, PNG, SAFETENSORS, TEXT, DeadLetter, Position, Stage
from schemas.settings import LimitSettings
from tests.faults.conftest import Rig
from tests.faults.exchange import Exchange, Raw, answer_of, refusal_of
from tests.faults.harness import FaultRun
from tests.models.store_builder import CLASSES, publish

LIMITS = LimitSettings(payload_bytes=1 << 20, result_bytes=64 << 10, key_bytes=16 << 10, header_bytes=16 << 10)
CANARY = b"cAnArY-7f3a"
MOVES_ON_SECONDS = 10.0


def typed(content_type: str, value: bytes, *more: tuple[str, bytes | str | None]) -> Raw:
    return Raw(value, [("content-type", content_type.encode()), *more])


def number(x: float) -> Raw:
    return Raw(b'{"x": %g}' % x)


# -- payloads ----------------------------------------------------------------------------------------------------------


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def plain(colour: tuple[int, int, int], size: tuple[int, int] = (16, 16)) -> Image.Image:
    return Image.new("RGB", size, colour)


def is_refusal(outcome: Outcome) -> TypeGuard[DeadLetter]:
    return isinstance(outcome, DeadLetter)


def png_bomb(width: int = 10_000, height: int = 10_000) -> bytes:
    """A sound header of 100 megapixels, and hardly any data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_claiming(header: str, data: bytes) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def tensors(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


SOUND_TENSORS = tensors(b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', np.array([1, 2], "<f4").tobytes())
OVERLAPPING = tensors(
    b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}',
    bytes(12),
)
SOUND_JPEG = encoded(plain((200, 40, 90)), "JPEG", quality=95)
FUTURE = str(9_223_372_036_854_775_808)

# -- what is refused: name, record, stage, code, a part of the reason --------------------------------------------------

REFUSED: list[tuple[str, Raw, Stage, str, str]] = [
    ("empty value", Raw(b""), Stage.VALIDATE, "invalid_input", "empty value"),
    ("random bytes", Raw(b"\xfe" + CANARY + bytes(range(256))), Stage.PREPROCESS, "invalid_input", "octet-stream"),
    (
        "wrong content type",
        typed(JPEG, b'{"x": 1}' + CANARY),
        Stage.PREPROCESS,
        "invalid_input",
        "neither JPEG nor PNG",
    ),
    ("unknown content type", typed("video/mp4", b"xx"), Stage.DECODE, "envelope", "video/mp4"),
    *[
        (
            f"schema version {version}",
            typed(JSON, b'{"x": 1}', ("ce_specversion", version)),
            Stage.DECODE,
            "envelope",
            "is not supported",
        )
        for version in ("2.0", "0", "-1", "text", FUTURE, "", "1.x", "\u0661.0")
    ],
    ("header value not UTF-8", Raw(b'{"x": 1}', [("ce_id", b"\xff\xfe")]), Stage.DECODE, "envelope", "not UTF-8"),
    ("content type not UTF-8", Raw(b'{"x": 1}', [("content-type", b"\xff")]), Stage.DECODE, "envelope", "not UTF-8"),
    ("deadline that is none", typed(JSON, b'{"x": 1}', ("ce_deadline", "soon")), Stage.DECODE, "envelope", "'soon'"),
    (
        "reference payload",
        typed(JSON, b"1", ("ce_dataref", "file:///etc/shadow")),
        Stage.DECODE,
        "envelope",
        "switched off",
    ),
    ("0-byte JPEG", typed(JPEG, b""), Stage.VALIDATE, "invalid_input", "empty value"),
    *[
        (
            f"JPEG cut at {part} of 8",
            typed(JPEG, SOUND_JPEG[: len(SOUND_JPEG) * part // 8]),
            Stage.PREPROCESS,
            "invalid_input",
            "",
        )
        for part in range(1, 8)
    ],
    ("PNG bomb", typed(PNG, png_bomb()), Stage.PREPROCESS, "too_large", "10000 by 10000"),
    ("PNG without size", typed(PNG, png_bomb(0, 0)), Stage.PREPROCESS, "invalid_input", "0 by 0"),
    ("PNG without data", typed(PNG, png_bomb(64, 64)), Stage.PREPROCESS, "invalid_input", "not a whole PNG"),
    ("GIF as PNG", typed(PNG, encoded(plain((1, 2, 3)), "GIF")), Stage.PREPROCESS, "invalid_input", "neither"),
    ("malformed JSON", typed(JSON, b'{"x": 1,' + CANARY), Stage.PREPROCESS, "invalid_input", "not valid JSON"),
    ("JSON not UTF-8", typed(JSON, b'{"x": 1, "y": "\xff"}'), Stage.PREPROCESS, "invalid_input", "not valid JSON"),
    ("deep JSON", typed(JSON, b'{"x":' * 10_000 + b"1" + b"}" * 10_000), Stage.PREPROCESS, "too_large", ""),
    ("deep JSON list", typed(JSON, b"[" * 100_000), Stage.PREPROCESS, "too_large", ""),
    ("JSON NaN", typed(JSON, b'{"x": NaN}'), Stage.PREPROCESS, "invalid_input", "not valid JSON"),
    ("JSON 1e400", typed(JSON, b'{"x": 1e400}'), Stage.PREPROCESS, "invalid_input", ""),
    ("JSON key twice", typed(JSON, b'{"x": 1, "x": "' + CANARY + b'"}'), Stage.PREPROCESS, "invalid_input", "twice"),
    ("JSON of 1 MB digits", typed(JSON, b'{"x": ' + b"9" * 900_000 + b"}"), Stage.PREPROCESS, "invalid_input", ""),
    ("missing field", typed(JSON, b'{"z": "' + CANARY + b'"}'), Stage.PREPROCESS, "model_failure", "grow"),
    ("wrong shape of JSON", typed(JSON, b"[1, 2]"), Stage.PREPROCESS, "model_failure", ""),
    ("text not UTF-8", typed(TEXT, CANARY + b"\xff\xfe"), Stage.PREPROCESS, "invalid_input", "not UTF-8"),
    (
        "npy with a lying shape",
        typed(NPY, npy_claiming("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,), }", bytes(16))),
        Stage.PREPROCESS,
        "invalid_input",
        "",
    ),
    (
        "npy with 10^18 elements",
        typed(NPY, npy_claiming("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000), }", b"")),
        Stage.PREPROCESS,
        "too_large",
        "",
    ),
    (
        "npy of objects",
        typed(
            NPY, npy_claiming("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n." + CANARY)
        ),
        Stage.PREPROCESS,
        "invalid_input",
        "",
    ),
    ("npy cut short", typed(NPY, npy(np.ones(8, "f4"))[:-3]), Stage.PREPROCESS, "invalid_input", ""),
    ("npy with NaN", typed(NPY, npy(np.array([1, np.nan], "f4"))), Stage.POSTPROCESS, "invalid_output", "not finite"),
    ("npy with infinity", typed(NPY, npy(np.array([np.inf], "f4"))), Stage.POSTPROCESS, "invalid_output", "not finite"),
    ("safetensors that overlap", typed(SAFETENSORS, OVERLAPPING), Stage.PREPROCESS, "invalid_input", "overlaps"),
    ("safetensors cut short", typed(SAFETENSORS, SOUND_TENSORS[:-1]), Stage.PREPROCESS, "invalid_input", ""),
    (
        "safetensors header of 2^62",
        typed(SAFETENSORS, (1 << 62).to_bytes(8, "little") + b"{}"),
        Stage.PREPROCESS,
        "invalid_input",
        "header length",
    ),
    ("key of 1 MB", Raw(b'{"x": 1}', key=bytes(1_000_000)), Stage.VALIDATE, "too_large", "limits.key_bytes"),
    ("large header", Raw(b'{"x": 1}', [("h", bytes(20_000))]), Stage.VALIDATE, "too_large", "limits.header_bytes"),
    ("header flood", Raw(b'{"x": 1}', [("h", b"")] * 20_000), Stage.VALIDATE, "too_large", "limits.header_bytes"),
    (
        "nameless header flood",
        Raw(b'{"x": 1}', [("", None)] * 60_000),
        Stage.VALIDATE,
        "too_large",
        "limits.header_bytes",
    ),
    (
        "reserved header flood",
        Raw(b'{"x": 1}', [(ERROR_PREFIX, b"")] * 3000),
        Stage.VALIDATE,
        "too_large",
        "limits.header_bytes",
    ),
    ("one byte too many", typed(TEXT, b"a" * (LIMITS.payload_bytes + 1)), Stage.VALIDATE, "too_large", "payload_bytes"),
    ("result too large", Raw(b'{"grow": 70000}'), Stage.POSTPROCESS, "invalid_output", "larger than"),
    ("dead letter too large to carry its payload", typed(JPEG, b"x" * 100_000), Stage.PREPROCESS, "invalid_input", ""),
]

# -- what is answered: name, record, answer ----------------------------------------------------------------------------


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(plain((10, 200, 30), (24, 8)), "JPEG", quality=100, exif=exif)


ANSWERED: list[tuple[str, Raw, Any]] = [
    ("schema version 1.7", typed(JSON, b'{"x": 3}', ("ce_specversion", "1.7")), 3.0),
    ("schema version 1", typed(JSON, b'{"x": 3}', ("ce_specversion", "1")), 3.0),
    ("content type with parameters", typed("application/json; charset=utf-8", b'{"x": 4}'), 4.0),
    ("no header, no key", Raw(b'{"x": 5}', key=None), 5.0),
    ("JSON with blanks and no header", Raw(b'\n {"x": 6}\r\n'), 6.0),
    ("unknown header, not UTF-8", Raw(b'{"x": 7}', [("other", b"\xff\xfe"), ("null", None)]), 7.0),
    ("empty id", Raw(b'{"x": 8}', [("ce_id", b"")]), 8.0),
    ("largest payload", typed(TEXT, b"a" * LIMITS.payload_bytes), float(LIMITS.payload_bytes)),
    ("one byte less", typed(TEXT, b"a" * (LIMITS.payload_bytes - 1)), float(LIMITS.payload_bytes - 1)),
    ("one byte", typed(TEXT, b"a"), 1.0),
    ("largest key", Raw(b'{"x": 9}', key=bytes(LIMITS.key_bytes)), 9.0),
    (
        "largest result",
        Raw(b'{"grow": %d}' % (LIMITS.result_bytes - 2), key=bytes(LIMITS.key_bytes)),
        "y" * (LIMITS.result_bytes - 2),
    ),
    ("npy", typed(NPY, npy(np.arange(4, dtype="f4"))), 6.0),
    ("npy in Fortran order and big-endian", typed(NPY, npy(np.asfortranarray(np.ones((2, 3), ">f8")))), 6.0),
    ("safetensors", typed(SAFETENSORS, SOUND_TENSORS), 3.0),
    ("JPEG without header", Raw(SOUND_JPEG), (200, 40, 90)),
    ("PNG as JPEG", typed(JPEG, encoded(plain((1, 2, 3)), "PNG")), (1, 2, 3)),
    ("CMYK", typed(JPEG, encoded(plain((200, 40, 90)).convert("CMYK"), "JPEG", quality=95)), (200, 40, 90)),
    ("grey JPEG", typed(JPEG, encoded(Image.new("L", (9, 9), 77), "JPEG", quality=95)), (77, 77, 77)),
    ("16-bit", typed(PNG, encoded(Image.fromarray(np.full((4, 4), 257 * 99, np.uint16)), "PNG")), (99, 99, 99)),
    ("palette", typed(PNG, encoded(plain((9, 8, 7)).quantize(4), "PNG")), (9, 8, 7)),
    ("1-bit", typed(PNG, encoded(Image.new("1", (5, 5), 1), "PNG")), (255, 255, 255)),
    ("alpha, clear", typed(PNG, encoded(Image.new("RGBA", (5, 5), (9, 9, 9, 0)), "PNG")), (255, 255, 255)),
    ("alpha, half", typed(PNG, encoded(Image.new("RGBA", (5, 5), (0, 100, 200, 51)), "PNG")), (204, 224, 244)),
    ("grey with alpha", typed(PNG, encoded(Image.new("LA", (5, 5), (0, 51)), "PNG")), (204, 204, 204)),
    ("1 by 1", typed(PNG, encoded(plain((4, 5, 6), (1, 1)), "PNG")), (4, 5, 6)),
    ("1 by 60000", typed(PNG, encoded(plain((4, 5, 6), (1, 60_000)), "PNG")), (4, 5, 6)),
    *[(f"turned {turn}", typed(JPEG, turned(turn)), (10, 200, 30)) for turn in range(1, 9)],
]


@dataclass
class Seen:
    """What became of every case: its outcomes, those of the records around it, and the seconds it all took."""

    run: FaultRun
    cases: dict[str, tuple[Raw, Position]] = field(default_factory=dict)
    around: dict[str, tuple[Position, Position]] = field(default_factory=dict)
    outcomes: dict[Position, list[Outcome]] = field(default_factory=dict)
    in_order: list[Position] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, name: str) -> Outcome:
        """The one outcome of a case."""
        found = self.outcomes[self.cases[name][1]]
        assert len(found) == 1
        return found[0]


@pytest.fixture(scope="module")
def run(shared_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultRun]:
    folder = tmp_path_factory.mktemp("bad-input")
    publish(folder / "store", model_class="omnivore")
    run = FaultRun(shared_rig, f"bad-{folder.name}", folder, partitions=2, proxied=False)
    with TopicAdmin(shared_rig.direct) as admin:
        admin.create(plan_topics(run.topics, LIMITS, partitions=2, replication=1))
    with run:
        run.start_worker(
            model={"name": "test", "version": "v1", "classes": CLASSES, "instances": 1},
            limits=LIMITS.model_dump(),
            batching={"max_batch_size": 8, "max_wait_ms": 5},
        )
        yield run


@pytest.fixture(scope="module")
def exchange(run: FaultRun) -> Iterator[Exchange]:
    with Exchange(run) as exchange:
        yield exchange


@pytest.fixture(scope="module")
def seen(run: FaultRun, exchange: Exchange) -> Seen:
    """Send every case between two good records, all to one partition, and wait for what becomes of them."""
    seen = Seen(run)
    records: list[Raw] = []
    names = [(name, record) for name, record, *_ in [*REFUSED, *ANSWERED]]
    for index, (_, record) in enumerate(names):
        records += [number(1000 + index), record, number(2000 + index)]
    began = time.monotonic()
    positions = exchange.send(records)
    exchange.collect(positions, 60)
    seen.seconds = time.monotonic() - began
    for index, (name, record) in enumerate(names):
        seen.cases[name] = (record, positions[3 * index + 1])
        seen.around[name] = (positions[3 * index], positions[3 * index + 2])
    exchange.read(0.5)
    seen.outcomes, seen.in_order = exchange.outcomes, exchange.in_order
    return seen


@pytest.mark.parametrize(("name", "stage", "code", "reason"), [(case[0], *case[2:]) for case in REFUSED])
def test_a_bad_record_becomes_one_dead_letter(seen: Seen, name: str, stage: Stage, code: str, reason: str) -> None:
    record, position = seen.cases[name]
    letter = refusal_of(seen.of(name))
    assert (letter.error.stage, letter.error.code) == (stage, code), letter.error
    assert reason in letter.error.message
    assert letter.error.message
    assert "0x" not in letter.error.message.replace("0x…", "")
    assert CANARY.decode() not in letter.error.message
    assert letter.source == position
    if letter.payload_omitted:
        assert letter.payload == b""
    else:
        assert (letter.key, letter.payload) == (record.key, record.value)
        assert len(letter.headers) == len(record.headers)


@pytest.mark.parametrize(("name", "answer"), [(case[0], case[2]) for case in ANSWERED])
def test_an_odd_but_sound_record_is_answered_right(seen: Seen, name: str, answer: Any) -> None:
    found = answer_of(seen.of(name))
    assert found == (pytest.approx(answer, abs=1.5) if isinstance(answer, tuple) else answer)


def test_the_records_around_a_bad_one_get_their_answers(seen: Seen) -> None:
    for index, name in enumerate(seen.cases):
        before, after = (seen.outcomes[position] for position in seen.around[name])
        assert [answer_of(outcome) for outcome in before] == [1000 + index], name
        assert [answer_of(outcome) for outcome in after] == [2000 + index], name


def test_results_and_dead_letters_keep_the_order_of_their_partition(seen: Seen) -> None:
    for kind in (True, False):
        offsets = [
            position.offset
            for position in seen.in_order
            if position.partition == 0
            and (len(seen.outcomes[position]) == 1)
            and is_refusal(seen.outcomes[position][0]) is kind
        ]
        assert offsets == sorted(offsets)


def test_the_partition_moves_on(seen: Seen) -> None:
    assert seen.seconds < MOVES_ON_SECONDS


class RawName(str):
    """A header name that is not text, past a client that insists on text."""

    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        """The bytes that are sent."""
        return b"\xff\xfename"


def test_a_header_name_that_is_not_text_is_a_dead_letter_and_the_partition_moves_on(
    run: FaultRun, exchange: Exchange
) -> None:
    # Among many: what the interpreter does with the client's broken headers changes once the code is hot.
    exchange.ask(*[number(x)._replace(partition=1) for x in range(200)])
    producer = KafkaProducer(bootstrap_servers=run.rig.stack.bootstrap)
    topic = run.topics.requests[0]
    try:
        sent = producer.send(topic, b'{"x": 1}', partition=1, headers=[("a", b"b"), (RawName("n"), b"v")]).get(10)
    finally:
        producer.close()
    behind = exchange.send([number(2)._replace(partition=1)])
    bad, good = exchange.collect([Position(topic, 1, sent.offset), *behind])
    letter = refusal_of(bad)
    assert (letter.error.stage, letter.error.code) == (Stage.DECODE, "envelope")
    assert letter.payload == b'{"x": 1}'
    assert answer_of(good) == 2


def test_a_tombstone_is_passed_over_without_an_answer(exchange: Exchange) -> None:
    before, tombstone, after = exchange.send([number(1), Raw(None), number(2)])
    assert [answer_of(outcome) for outcome in exchange.collect([before, after])] == [1, 2]
    exchange.read(0.3)
    assert tombstone not in exchange.outcomes


def test_each_record_with_a_repeated_id_is_answered_for_itself(exchange: Exchange) -> None:
    headers = [("ce_id", b"again")]
    records = [Raw(b'{"x": %d}' % x, headers, partition=x % 2) for x in range(6)]
    outcomes = exchange.ask(*records)
    assert [answer_of(outcome) for outcome in outcomes] == list(range(6))
    assert {outcome.request_id for outcome in outcomes} == {"again"}


def test_a_request_cannot_forge_the_history_of_its_dead_letter(exchange: Exchange) -> None:
    forged = [(ERROR_PREFIX + "topic", b"elsewhere"), (ERROR_PREFIX + "made-up", b"1"), ("mine", b"kept")]
    letter = refusal_of(exchange.ask(Raw(b"\xfe", forged))[0])
    assert letter.source.topic != "elsewhere"
    assert dict(letter.headers) == {
        f"x-forwarded-{ERROR_PREFIX}topic": b"elsewhere",
        f"x-forwarded-{ERROR_PREFIX}made-up": b"1",
        "mine": b"kept",
    }


def test_what_a_console_producer_types_is_answered_and_a_plain_client_can_read_it(
    run: FaultRun, exchange: Exchange
) -> None:
    producer = KafkaProducer(bootstrap_servers=run.rig.stack.bootstrap)
    topic = run.topics.requests[0]
    try:
        sent = producer.send(topic, b'{"x": 41.5}').get(10)
    finally:
        producer.close()
    place = Position(topic, sent.partition, sent.offset)
    outcome = exchange.collect([place])[0]
    consumer = KafkaConsumer(
        bootstrap_servers=run.rig.stack.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    try:
        consumer.assign([TopicPartition(run.topics.results, outcome.position.partition)])
        consumer.seek(TopicPartition(run.topics.results, outcome.position.partition), outcome.position.offset)
        record = next(iter(consumer.poll(10_000).values()))[0]
    finally:
        consumer.close()
    value = json.loads(record.value)
    assert (value["status"], value["output"]) == ("ok", 41.5)
    assert value["source"] == {"topic": topic, "partition": place.partition, "offset": place.offset}
    headers = {name: data.decode() for name, data in record.headers}
    assert headers["ce_id"] == f"{topic}-{place.partition}-{place.offset}"
    assert headers["content-type"] == JSON
    assert (headers["modelname"], headers["modelversion"]) == ("test", "v1")


def test_no_payload_and_no_address_is_in_the_log_or_in_a_reason(run: FaultRun, seen: Seen) -> None:
    log = run.worker.log.read_bytes()
    reasons = [letter.error.message for letters in seen.outcomes.values() for letter in letters if is_refusal(letter)]
    assert len(reasons) >= len(REFUSED)
    for text in (log, "\n".join(reasons).encode()):
        assert CANARY not in text
        assert re.search(rb"0x[0-9a-f]{4}", text) is None


def test_the_worker_was_never_restarted_and_the_books_are_clean(run: FaultRun, seen: Seen) -> None:
    assert run.worker.log.read_text().count("member started") == 1
    assert "model process ended" not in run.worker.log.read_text()
    run.finish().check()
