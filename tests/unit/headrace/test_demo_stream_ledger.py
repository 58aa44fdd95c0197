"""The books: sent against outcomes."""

from headrace.demo.stream_ledger import balance
from producers.audit.ledger import SentRecord
from tests.unit.headrace.demo_outcomes import make_dead_letter, make_result, make_sent


def test_one_outcome_per_request_is_clean_whether_result_or_dead_letter() -> None:
    outcomes = [make_result("a", 0), make_dead_letter("a", 1), make_result("a", 2)]
    books = balance({"a": make_sent("a", 3)}, outcomes)
    assert books.is_clean
    (book,) = books.streams
    assert (book.sent, book.results, book.dead_letters) == (3, 2, 1)


def test_what_is_missing_doubled_or_out_of_order_stands_in_the_row_of_its_stream() -> None:
    outcomes = [make_result("a", 0), make_result("a", 2), make_result("a", 1), make_result("a", 1)]
    books = balance({"a": make_sent("a", 4), "b": []}, outcomes)
    first, second = books.streams
    assert (first.missing, first.doubled, first.out_of_order) == (1, 1, 1)
    assert (second.name, second.sent, second.missing) == ("b", 0, 0)
    assert not books.is_clean
    assert books.findings == {"missing": 1, "doubled": 1, "out_of_order": 1}


def test_an_outcome_of_a_request_that_was_never_sent_is_found() -> None:
    books = balance({"a": make_sent("a", 1)}, [make_result("a", 0), make_result("z", 7)])
    assert books.findings == {"unknown": 1}


def test_a_stream_that_sent_nothing_is_clean() -> None:
    assert balance({"a": list[SentRecord]()}, []).is_clean
