"""Clean or not: what may follow a transaction."""

import msgspec

from stream_workers.kafka.transaction_watch import Statistics, TransactionWatch, Verdict, parse_statistics


def test_a_quick_transaction_is_clean_without_statistics() -> None:
    watch = TransactionWatch()
    watch.note_begin()
    watch.note_step(1.0, 1.01)
    assert watch.verdict() is Verdict.CLEAN


def test_a_slow_transaction_waits_for_statistics_from_after_its_end() -> None:
    watch = TransactionWatch()
    watch.note_statistics(Statistics(0.5, 3))
    watch.note_begin()
    watch.note_step(1.0, 1.2)
    assert watch.verdict() is Verdict.UNKNOWN
    watch.note_statistics(Statistics(1.1, 3))
    assert watch.verdict() is Verdict.UNKNOWN
    watch.note_statistics(Statistics(1.25, 3))
    assert watch.verdict() is Verdict.CLEAN


def test_a_disturbance_inside_a_slow_transaction_is_unclean() -> None:
    watch = TransactionWatch()
    watch.note_statistics(Statistics(0.5, 3))
    watch.note_begin()
    watch.note_step(1.0, 1.2)
    watch.note_statistics(Statistics(1.25, 4))
    assert watch.verdict() is Verdict.UNCLEAN


def test_a_disturbance_seen_during_a_quick_transaction_is_unclean_too() -> None:
    watch = TransactionWatch()
    watch.note_begin()
    watch.note_statistics(Statistics(1.0, 1))
    watch.note_step(1.0, 1.01)
    assert watch.verdict() is Verdict.UNCLEAN


def test_an_old_disturbance_belongs_to_the_past() -> None:
    watch = TransactionWatch()
    watch.note_statistics(Statistics(0.5, 9))
    watch.note_begin()
    watch.note_step(1.0, 1.01)
    assert watch.verdict() is Verdict.CLEAN


def test_statistics_are_read_from_what_the_client_prints() -> None:
    text = msgspec.json.encode(
        {
            "name": "rdkafka#producer-1",
            "ts": 2_500_000,
            "brokers": {
                "a": {"disconnects": 2, "txretries": 1, "toppars": {}},
                "TxnCoordinator": {"disconnects": 1, "txretries": 0},
            },
        }
    )
    assert parse_statistics(text) == Statistics(2.5, 4)
