from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from model_store.live_versions import LiveVersions
from model_store.live_workers import MAX_WORKERS, LiveWorkers
from model_store.worker_reports import (
    CANDIDATE_TTL_SECONDS,
    MAX_CANDIDATE_BYTES,
    MAX_REPORT_BYTES,
    REPORT_TTL_SECONDS,
    Candidate,
    Roster,
    WorkerReport,
    encode_report,
)
from schemas.errors import InvalidPointerError, PointerConflictError, UnavailableError, UnsafeNameError
from schemas.settings import RedisSettings
from tests.fakes.fake_live_workers import FakeLiveWorkers

FIRST = Candidate("0" * 16, ("v2",), "ann@host", 5)
SECOND = Candidate("1" * 16, ("v3",), "bob@host", 6)


def report(worker: str, **changes: Any) -> WorkerReport:
    return WorkerReport(worker, **{"slot": 0, "host": "host", "pid": 42, "epoch": 1, **changes})


class StoredByHand(LiveWorkers):
    """The real door, with a way for the test to put any value behind it."""

    def put_candidate(self, model: str, value: bytes) -> None:
        self._connection.client.set(self._candidate_key(model), value)

    def put_report(self, model: str, worker: str, value: bytes) -> None:
        self._connection.client.set(self._report_key(model, worker), value)
        self._connection.client.sadd(self._workers_key(model), worker)


@pytest.fixture
def real(settings: RedisSettings) -> Iterator[StoredByHand]:
    door = StoredByHand(settings)
    yield door
    door.close()


@pytest.fixture(params=["fake", "real"])
def door(request: pytest.FixtureRequest) -> Any:
    return FakeLiveWorkers() if request.param == "fake" else request.getfixturevalue("real")


def test_there_is_nothing_at_first(door: Any) -> None:
    assert door.read_candidate("m") is None
    assert door.read_workers("m") == Roster()


def test_one_candidate_at_a_time_is_prepared(door: Any) -> None:
    door.propose_candidate("m", FIRST)
    door.propose_candidate("other", SECOND)

    with pytest.raises(PointerConflictError, match="ann@host is preparing v2 of m"):
        door.propose_candidate("m", SECOND)
    assert door.read_candidate("m") == FIRST
    door.withdraw_candidate("m", FIRST.id)
    assert door.read_candidate("m") is None
    door.propose_candidate("m", SECOND)
    assert door.read_candidate("m") == SECOND


def test_a_candidate_is_withdrawn_by_who_proposed_it_only(door: Any) -> None:
    door.propose_candidate("m", FIRST)

    door.withdraw_candidate("m", SECOND.id)
    door.withdraw_candidate("other", FIRST.id)
    assert door.read_candidate("m") == FIRST


def test_renewing_puts_a_lost_candidate_back_and_never_replaces_another_one(door: Any) -> None:
    assert door.renew_candidate("m", FIRST)
    assert door.renew_candidate("m", FIRST)
    assert door.read_candidate("m") == FIRST
    assert not door.renew_candidate("m", SECOND)
    assert door.read_candidate("m") == FIRST


@pytest.mark.parametrize("value", [b"", b"v1", b"{}", b"\x80\x04.", b"[" * 3000, b"x" * (MAX_CANDIDATE_BYTES + 1)])
def test_a_value_that_is_no_candidate_is_refused_and_blocks_nobody(door: Any, value: bytes) -> None:
    door.put_candidate("m", value)

    with pytest.raises(InvalidPointerError):
        door.read_candidate("m")
    door.withdraw_candidate("m", FIRST.id)
    door.propose_candidate("m", FIRST)
    assert door.read_candidate("m") == FIRST


def test_workers_report_again_and_again_until_they_leave(door: Any) -> None:
    door.report_worker("m", report("b"))
    door.report_worker("m", report("a", serving=("v1",), warm=("v1", "v2"), ready=FIRST.id))
    door.report_worker("other", report("c"))
    door.report_worker("m", report("b", epoch=2).refusing(FIRST.id, "wrong hash"))

    roster = door.read_workers("m")
    assert [(one.worker, one.epoch, one.ready) for one in roster.reports] == [("a", 1, FIRST.id), ("b", 2, None)]
    assert roster.reports[1].refused is not None
    door.withdraw_worker("m", "a")
    assert [one.worker for one in door.read_workers("m").reports] == ["b"]


@pytest.mark.parametrize("value", [b"x", b"{}", b"[" * 3000, b"x" * (MAX_REPORT_BYTES + 1), encode_report(report("b"))])
def test_a_report_that_is_not_sound_is_told_apart_from_one_that_is_not_there(door: Any, value: bytes) -> None:
    door.put_report("m", "a", value)
    door.report_worker("m", report("c"))

    roster = door.read_workers("m")
    assert (roster.unreadable, [one.worker for one in roster.reports]) == (("a",), ["c"])


@pytest.mark.parametrize("name", ["../x", "a:b", "", "a b", "a*"])
def test_hostile_names_reach_no_key(door: Any, name: str) -> None:
    for call in (
        lambda: door.read_candidate(name),
        lambda: door.propose_candidate(name, FIRST),
        lambda: door.renew_candidate(name, FIRST),
        lambda: door.withdraw_candidate(name, FIRST.id),
        lambda: door.report_worker(name, report("a")),
        lambda: door.read_workers(name),
        lambda: door.withdraw_worker("m", name),
        lambda: door.withdraw_worker(name, "a"),
    ):
        with pytest.raises(UnsafeNameError):
            call()
    with pytest.raises(UnsafeNameError):
        door.report_worker("m", report(name))


def test_what_is_not_renewed_expires(real: StoredByHand, client: Any) -> None:
    real.propose_candidate("m", FIRST)
    real.report_worker("m", report("a"))

    assert 0 < client.pttl(real._candidate_key("m")) <= CANDIDATE_TTL_SECONDS * 1000
    assert 0 < client.pttl(real._report_key("m", "a")) <= REPORT_TTL_SECONDS * 1000
    client.pexpire(real._candidate_key("m"), 1000)
    assert real.renew_candidate("m", FIRST)
    assert client.pttl(real._candidate_key("m")) > 1000


def test_a_worker_without_a_report_is_forgotten(real: StoredByHand, client: Any) -> None:
    real.report_worker("m", report("a"))
    real.report_worker("m", report("b"))
    client.delete(real._report_key("m", "a"))

    assert [one.worker for one in real.read_workers("m").reports] == ["b"]
    assert client.smembers(real._workers_key("m")) == {b"b"}


def test_a_worker_that_reports_while_it_would_be_forgotten_stays(real: StoredByHand, client: Any) -> None:
    real.report_worker("m", report("a"))

    real._forget("m", "a")

    assert client.smembers(real._workers_key("m")) == {b"a"}


def test_each_change_of_the_candidate_is_hinted(real: StoredByHand, settings: RedisSettings) -> None:
    versions = LiveVersions(settings)
    listener = versions.hints("m")
    listener.wait(1.0)  # the subscription's own confirmation, which is no hint

    real.propose_candidate("m", FIRST)
    assert listener.wait(5.0)
    assert real.renew_candidate("m", FIRST)
    assert not listener.wait(0.01)
    real.withdraw_candidate("m", FIRST.id)
    assert listener.wait(5.0)
    listener.close()
    versions.close()


@pytest.mark.parametrize("kind", ["list", "hash", "string"])
def test_a_set_of_another_type_is_a_typed_error(real: StoredByHand, client: Any, kind: str) -> None:
    key = real._workers_key("m")
    {
        "list": lambda: client.rpush(key, "a"),
        "hash": lambda: client.hset(key, "a", "b"),
        "string": lambda: client.set(key, "a"),
    }[kind]()

    with pytest.raises(InvalidPointerError, match=kind):
        real.read_workers("m")


def test_a_report_under_a_key_of_another_type_is_unreadable(real: StoredByHand, client: Any) -> None:
    real.report_worker("m", report("a"))
    client.delete(real._report_key("m", "a"))
    client.rpush(real._report_key("m", "a"), "x")

    assert real.read_workers("m") == Roster((), ("a",))


def test_a_huge_set_or_member_is_never_fetched(real: StoredByHand, client: Any) -> None:
    client.sadd(real._workers_key("many"), *(f"w{n}" for n in range(MAX_WORKERS + 1)))
    client.sadd(real._workers_key("long"), b"x" * 50_000_000)
    client.sadd(real._workers_key("odd"), b"\xff\xfe", b"a:b", b"", b"good")
    before = client.info("stats")["total_net_output_bytes"]

    for model in ("many", "long"):
        with pytest.raises(InvalidPointerError, match="more than"):
            real.read_workers(model)
    assert real.read_workers("odd") == Roster()
    assert client.info("stats")["total_net_output_bytes"] - before < 1_000_000


def test_a_huge_report_is_never_fetched(real: StoredByHand, client: Any) -> None:
    real.report_worker("m", report("a"))
    client.setrange(real._report_key("m", "a"), 100_000_000, b"x")
    before = client.info("stats")["total_net_output_bytes"]

    assert real.read_workers("m") == Roster((), ("a",))
    assert client.info("stats")["total_net_output_bytes"] - before < 1_000_000


def test_two_preparations_at_once_cannot_both_begin(
    real: StoredByHand, settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, set_candidate = LiveWorkers(settings), LiveWorkers._set_candidate

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(LiveWorkers, "_set_candidate", set_candidate)
        other.propose_candidate("m", SECOND)
        set_candidate(*arguments)

    monkeypatch.setattr(LiveWorkers, "_set_candidate", overtaken)

    with pytest.raises(PointerConflictError, match="same moment"):
        real.propose_candidate("m", FIRST)
    assert real.read_candidate("m") == SECOND
    other.close()


def test_a_server_that_does_not_answer_is_unavailable(tmp_path: Any) -> None:
    door = LiveWorkers(RedisSettings(url=SecretStr(f"unix://{tmp_path}/none.sock"), timeout_seconds=0.5))

    for call in (
        lambda: door.read_candidate("m"),
        lambda: door.propose_candidate("m", FIRST),
        lambda: door.renew_candidate("m", FIRST),
        lambda: door.withdraw_candidate("m", FIRST.id),
        lambda: door.report_worker("m", report("a")),
        lambda: door.withdraw_worker("m", "a"),
        lambda: door.read_workers("m"),
    ):
        with pytest.raises(UnavailableError):
            call()
