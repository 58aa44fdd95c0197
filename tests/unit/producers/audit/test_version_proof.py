"""Each defect is planted in a history that a sound fleet could have written, and must be found to the record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.audit.findings import Kind
from producers.audit.version_facts import NOT_KNOWN, Decision, Decisions, Met, find_epoch, make_table, read_met
from producers.audit.version_proof import VersionProof, prove_versions
from schemas.records import Position
from tests.unit.producers.audit.audit_builders import dead_letter, result

PLACE = ("requests", 0)
START_MS = 1000


def always(version: str) -> Callable[[bytes], str]:
    return lambda _: version


def exact(epoch: int, from_ms: int) -> Decision:
    return Decision(epoch, frozenset({f"v{epoch}"}), from_ms, always(f"v{epoch}"))


def now(epoch: int) -> Decision:
    return Decision(epoch, frozenset({f"v{epoch}"}), None, always(f"v{epoch}"))


def met(offset: int, epoch: int, *, version: str = "", timestamp_ms: int = -1, key: bytes | None = b"k") -> Met:
    """Records are appended ten milliseconds apart."""
    appended = START_MS + 10 * offset if timestamp_ms < 0 else timestamp_ms
    source = Position(*PLACE, offset)
    return Met(source, appended, epoch, version or f"v{epoch}", key, Position("results", 0, offset))


def prove(records: Sequence[Met], decisions: Decisions = NOT_KNOWN) -> VersionProof:
    return prove_versions(lambda: iter(records), decisions)


def found(proof: VersionProof) -> dict[Kind, int]:
    return {kind: finding.count for kind, finding in proof.findings.items()}


@dataclass(frozen=True)
class History:
    """Three or more decisions after the first, and what each of the records met under them."""

    decisions: Decisions
    records: list[Met]

    def cut_of(self, epoch: int) -> int:
        """The first offset under an epoch."""
        return next(one.source.offset for one in self.records if one.epoch == epoch)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Every decision has records; some offsets have none, as behind transaction markers or tombstones."""
    offsets = sorted(draw(st.sets(st.integers(0, 200), min_size=12, max_size=40)))
    starts = sorted(draw(st.lists(st.integers(1, len(offsets) - 2), min_size=2, max_size=4, unique=True)))
    entries, cuts = [now(1)], {1: {PLACE: 0}}
    for epoch, start in enumerate(starts, 2):
        if draw(st.booleans()):
            entries.append(exact(epoch, START_MS + 10 * offsets[start]))
        else:
            entries.append(now(epoch))
            cuts[epoch] = {PLACE: offsets[start]}
    records = [
        met(offset, 1 + sum(start <= index for start in starts), key=str(index % 5).encode())
        for index, offset in enumerate(offsets)
    ]
    return History(Decisions(tuple(entries), cuts), records)


def replace(history: History, offset: int, **changes: object) -> list[Met]:
    return [msgspec.structs.replace(one, **changes) if one.source.offset == offset else one for one in history.records]


@given(histories(), st.randoms(use_true_random=False))
def test_a_sound_history_is_proven_in_whatever_order_it_is_read(history: History, random: object) -> None:
    shuffled = list(history.records)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random
    proof = prove(shuffled, history.decisions)
    assert found(proof) == {}
    assert {row.verdict for row in proof.rows} == {"proven", "proven, oldest kept"}
    assert [row.offset for row in proof.rows] == [history.cut_of(row.epoch) for row in proof.rows]
    assert sum(row.records for row in proof.rows) == proof.records == len(shuffled)
    assert prove(shuffled).clean


@given(histories(), st.data())
def test_a_record_that_goes_back_is_found_with_and_without_the_timeline(history: History, data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from([one for one in history.records if one.source.offset > history.cut_of(2)]))
    broken = replace(history, victim.source.offset, epoch=1, version="v1")
    assert found(prove(broken)) == {Kind.WRONG_VERSION: 1}
    proof = prove(broken, history.decisions)
    assert proof.findings[Kind.WRONG_VERSION].examples[0].startswith(f"{victim.source} met epoch 1 after epoch")
    assert proof.findings[Kind.LATE_CUT].count == 1


@given(histories(), st.data())
def test_a_cut_one_record_late_is_found(history: History, data: st.DataObject) -> None:
    epoch = data.draw(st.sampled_from(sorted({one.epoch for one in history.records} - {1})))
    offset = history.cut_of(epoch)
    proof = prove(replace(history, offset, epoch=epoch - 1, version=f"v{epoch - 1}"), history.decisions)
    assert found(proof) == {Kind.LATE_CUT: 1}
    assert proof.findings[Kind.LATE_CUT].examples[0].startswith(f"requests-0-{offset} met epoch {epoch - 1}")


@given(histories(), st.data())
def test_a_cut_one_record_early_is_found(history: History, data: st.DataObject) -> None:
    epoch = data.draw(st.sampled_from(sorted({one.epoch for one in history.records} - {1})))
    offset = max(one.source.offset for one in history.records if one.epoch < epoch)
    proof = prove(replace(history, offset, epoch=epoch, version=f"v{epoch}"), history.decisions)
    assert found(proof) == {Kind.EARLY_CUT: 1}
    assert proof.findings[Kind.EARLY_CUT].examples[0].startswith(f"requests-0-{offset} met epoch {epoch}")


@given(histories(), st.data())
def test_another_version_within_an_epoch_is_found(history: History, data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from(history.records))
    proof = prove(replace(history, victim.source.offset, version="other"), history.decisions)
    assert found(proof) == {Kind.MIXED_VERSIONS: 1}
    assert proof.findings[Kind.MIXED_VERSIONS].examples == [
        f"{victim.source} met other under epoch {victim.epoch} instead of v{victim.epoch}"
    ]


SPLIT = Decisions((Decision(1, frozenset({"a", "b"}), None, lambda key: "a" if key[-1] % 2 else "b"),), {1: {PLACE: 0}})


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.data())
def test_a_key_that_changes_its_version_under_a_split_is_found(keys: list[int], data: st.DataObject) -> None:
    records = [
        met(offset, 1, version="a" if key % 2 else "b", key=f"k{key}".encode()) for offset, key in enumerate(keys)
    ]
    assert prove(records, SPLIT).clean
    assert prove(records).clean
    victim = data.draw(st.integers(0, len(keys) - 1))
    other = "b" if keys[victim] % 2 else "a"
    records[victim] = msgspec.structs.replace(records[victim], version=other)
    assert found(prove(records, SPLIT)) == {Kind.MIXED_VERSIONS: 1}
    assert prove(records).clean == (keys.count(keys[victim]) == 1)


def test_a_record_without_key_is_split_by_its_place() -> None:
    assert found(prove([met(1, 1, version="a", key=None), met(2, 1, version="a", key=None)], SPLIT)) == {
        Kind.MIXED_VERSIONS: 1
    }


def test_a_dead_letter_that_may_have_lost_its_key_is_not_held_to_the_split() -> None:
    lost = read_met(msgspec.structs.replace(dead_letter(2, 0, version="a"), key=None))
    assert lost is not None
    assert prove([lost], SPLIT).clean


def test_a_clock_that_steps_back_behind_a_cut_turns_nothing_back() -> None:
    decisions = Decisions((now(1), exact(2, 1500)), {1: {PLACE: 0}})
    records = [met(0, 1, timestamp_ms=1400), met(1, 2, timestamp_ms=1500), met(2, 2, timestamp_ms=1450)]
    assert prove(records, decisions).clean
    turned = [*records[:2], met(2, 1, timestamp_ms=1450)]
    assert found(prove(turned, decisions)) == {Kind.WRONG_VERSION: 1, Kind.LATE_CUT: 1}


def test_a_switch_that_was_called_off_cuts_nothing() -> None:
    decisions = Decisions((now(1), exact(2, 1500), exact(3, 1500)), {1: {PLACE: 0}})
    assert prove([met(0, 1), met(50, 3)], decisions).clean
    assert found(prove([met(0, 1), met(50, 2), met(51, 3)], decisions)) == {Kind.LATE_CUT: 1}


def test_an_immediate_switch_without_a_recorded_cut_is_found_where_records_met_it() -> None:
    proof = prove([met(0, 1), met(1, 2)], Decisions((now(1), now(2)), {1: {PLACE: 0}}))
    assert found(proof) == {Kind.EARLY_CUT: 1}
    assert "no cut of it is recorded" in proof.findings[Kind.EARLY_CUT].examples[0]


def test_an_immediate_switch_that_another_one_overtook_needs_no_cut() -> None:
    decisions = Decisions((now(1), now(2), now(3)), {1: {PLACE: 0}, 3: {PLACE: 1}})
    assert prove([met(0, 1), met(1, 3)], decisions).clean


def test_an_epoch_that_nobody_decided_is_found() -> None:
    assert found(prove([met(0, 1), met(1, 7)], Decisions((now(1),), {}))) == {Kind.UNKNOWN_DECISION: 1}


def test_epochs_before_the_oldest_kept_are_held_to_be_monotone_only() -> None:
    decisions = Decisions((exact(5, 1100), now(6)), {6: {PLACE: 20}})
    assert prove([met(0, 3), met(5, 4), met(10, 5), met(20, 6)], decisions).clean
    assert prove([met(0, 5), met(20, 6)], decisions).clean


def test_without_append_times_an_exact_cut_may_be_early_and_says_so() -> None:
    decisions = Decisions((now(1), exact(2, 2000)), {1: {PLACE: 0}})
    proof = prove([met(0, 1), met(1, 2, timestamp_ms=0), met(100, 2)], decisions)
    assert proof.clean
    assert proof.undated == 1
    assert proof.rows[1].verdict == "not late; append times are missing"
    late = [met(0, 1, timestamp_ms=0), met(100, 2), met(101, 1)]
    assert found(prove(late, decisions)) == {Kind.WRONG_VERSION: 1, Kind.LATE_CUT: 1}


def test_a_fixed_version_may_be_another_one_after_a_deployment() -> None:
    assert prove([met(0, 0, version="v1"), met(1, 0, version="v2")]).clean


def test_partitions_are_judged_apart() -> None:
    elsewhere = msgspec.structs.replace(met(9, 1), source=Position("requests", 1, 9))
    proof = prove([met(0, 2), elsewhere])
    assert proof.clean
    assert [row.partition for row in proof.rows] == [("requests", 0), ("requests", 1)]


def test_a_clean_topic_is_read_once_and_one_that_is_not_twice() -> None:
    reads = []

    def read(records: list[Met]) -> list[Met]:
        reads.append(len(records))
        return records

    prove_versions(lambda: read([met(0, 1), met(1, 2)]))
    assert reads == [2]
    prove_versions(lambda: read([met(0, 2), met(1, 1), met(2, 2)]))
    assert reads == [2, 3, 3]


def test_what_met_no_version_is_no_record_of_one() -> None:
    assert read_met(dead_letter(0, 0, version="")) is None
    one = read_met(msgspec.structs.replace(result(3, 0, epoch=2), source_timestamp_ms=77))
    assert one is not None
    assert (one.epoch, one.timestamp_ms, one.source.offset) == (2, 77, 3)


@pytest.mark.parametrize(("offset", "epoch"), [(0, None), (4, None), (5, 2), (9, 2), (10, 4), (99, 4)])
def test_a_table_holds_for_an_epoch_or_a_later_one(offset: int, epoch: int | None) -> None:
    # Epoch 3 begins behind epoch 4, so it never does.
    assert find_epoch(make_table({2: 5, 3: 12, 4: 10}), offset) == epoch
