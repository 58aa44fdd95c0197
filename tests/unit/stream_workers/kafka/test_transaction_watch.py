"""Clean or not: what may follow a transaction."""

import msgspec
import pytest

from stream_workers.kafka.transaction_watch import TransactionWatch

BROKE = "FAIL [w-0#producer-1] [thrd:TxnCoordinator]: TxnCoordinator: h:1: Disconnected (after 872ms in state UP)"
REFUSED = "FAIL [w-0#producer-1] [thrd:h:1/2]: h:1/2: Connect to ipv4#h:1 failed: refused (after 0ms in state CONNECT)"


def statistics(**disconnects: int) -> bytes:
    brokers = {name: {"disconnects": count, "txretries": 9} for name, count in disconnects.items()}
    return msgspec.json.encode({"name": "p", "ts": 1, "brokers": brokers})


def test_a_broken_connection_condemns_the_producer_for_good() -> None:
    watch = TransactionWatch()
    watch.note_log("CONNECTED [w-0#producer-1]")
    assert watch.disturbance is None
    watch.note_log(BROKE)
    watch.note_log("something else")
    assert watch.disturbance == BROKE


def test_a_connection_that_never_came_up_carried_nothing() -> None:
    watch = TransactionWatch()
    watch.note_log(REFUSED)
    assert watch.disturbance is None


def test_a_disconnect_from_any_broker_in_the_statistics_condemns_too() -> None:
    watch = TransactionWatch()
    watch.note_statistics(statistics(coordinator=1, other=0))
    watch.note_statistics(statistics(coordinator=1, other=0))
    assert watch.disturbance is None
    watch.note_statistics(statistics(coordinator=1, other=1))
    assert watch.disturbance == "1 connections broke"


def test_what_happened_before_the_identity_was_taken_over_is_forgiven() -> None:
    watch = TransactionWatch()
    watch.note_log(BROKE)
    watch.forgive()
    assert watch.disturbance is None


def test_statistics_that_are_not_statistics_are_an_error_not_a_clean_bill() -> None:
    with pytest.raises(msgspec.MsgspecError):
        TransactionWatch().note_statistics(b"[]")
