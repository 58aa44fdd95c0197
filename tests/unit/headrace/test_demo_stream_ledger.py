"""The books: sent against outcomes."""

from headrace.demo.stream_ledger import balance
from tests.unit.headrace.demo_outcomes import make_dead_letter, make_result


def make_ids(stream: str, count: int) -> list[str]:
    return [f"{stream}-{sequence:05d}" for sequence in range(count)]


def test_one_outcome_per_request_is_clean_whether_result_or_dead_letter() -> None:
    outcomes = [make_result("a", 0), make_dead_letter("a", 1), make_result("a", 2)]
    (book,) = balance({"a": make_ids("a", 3)}, outcomes)
    assert book.is_clean
    assert (book.sent, book.results, book.dead_letters) == (3, 2, 1)


def test_a_request_without_outcome_is_missing() -> None:
    (book,) = balance({"a": make_ids("a", 2)}, [make_result("a", 1)])
    assert (book.missing, book.is_clean) == (1, False)


def test_a_second_outcome_is_doubled_even_when_the_first_was_a_dead_letter() -> None:
    (book,) = balance({"a": make_ids("a", 1)}, [make_dead_letter("a", 0), make_result("a", 0)])
    assert (book.doubled, book.is_clean) == (1, False)


def test_a_result_behind_a_later_one_of_its_stream_is_out_of_order() -> None:
    outcomes = [make_result("a", 0), make_result("a", 2), make_result("a", 1)]
    (book,) = balance({"a": make_ids("a", 3)}, outcomes)
    assert (book.out_of_order, book.is_clean) == (1, False)


def test_an_outcome_of_a_request_that_was_never_sent_is_strange() -> None:
    books = balance({"a": make_ids("a", 1)}, [make_result("a", 0), make_result("a", 1), make_result("z", 0)])
    assert [(book.name, book.strange, book.is_clean) for book in books] == [("a", 1, False), ("(unknown)", 1, False)]
