"""What is in flight: bounded, counted, and reported by flush."""

import threading

import pytest

from producers.delivery_ledger import Counts, DeliveryLedger
from schemas.errors import PublishError, UnavailableError


def test_counts_follow_admission_and_reports():
    ledger = DeliveryLedger(100)
    for _ in range(3):
        ledger.admit(10, 0)
    ledger.settle(10, "a", None)
    ledger.settle(10, "b", PublishError("no"))
    assert ledger.counts == Counts(sent=3, acked=1, failed=1)
    assert ledger.counts.in_flight == 1


def test_a_full_buffer_refuses_with_its_size():
    ledger = DeliveryLedger(100)
    ledger.admit(60, 0)
    with pytest.raises(PublishError, match="60 bytes wait for Kafka, of 100 allowed"):
        ledger.admit(41, 0)
    ledger.settle(60, "a", None)
    ledger.admit(41, 0)


def test_a_request_above_the_whole_buffer_goes_alone():
    ledger = DeliveryLedger(100)
    ledger.admit(500, 0)
    with pytest.raises(PublishError):
        ledger.admit(1, 0)


def test_a_waiting_publisher_goes_on_when_there_is_room():
    ledger = DeliveryLedger(100)
    ledger.admit(100, 0)
    waiting = threading.Thread(target=ledger.admit, args=(50, 10))
    waiting.start()
    ledger.settle(100, "a", None)
    waiting.join(10)
    assert ledger.counts.sent == 2


def test_flush_names_how_many_failed_and_the_first():
    ledger = DeliveryLedger(100)
    for _ in range(3):
        ledger.admit(1, 0)
    ledger.settle(1, "a", None)
    ledger.settle(1, "b", UnavailableError("broker gone"))
    ledger.settle(1, "c", PublishError("other"))
    with pytest.raises(PublishError, match="2 requests were not written; the first, b: broker gone") as raised:
        ledger.wait_until_settled(0)
    assert isinstance(raised.value.__cause__, UnavailableError)
    ledger.wait_until_settled(0)


def test_flush_names_what_has_no_report():
    ledger = DeliveryLedger(100)
    ledger.admit(1, 0)
    with pytest.raises(PublishError, match="1 of 1 requests were not acknowledged in 0 s"):
        ledger.wait_until_settled(0)


def test_a_request_that_never_reached_the_client_is_not_counted():
    ledger = DeliveryLedger(100)
    ledger.admit(1, 0)
    ledger.withdraw(1)
    assert ledger.counts.sent == 0
    ledger.wait_until_settled(0)
