import json

import pytest

from benchmarks.agreement import Tolerance, compare_answers, read_output

NUMBERS = Tolerance("numbers", 0.01)
LABELS = Tolerance("top_label", 0.05)
DIRECTION = Tolerance("direction", 1e-3)


def encode(value):
    return json.dumps(value).encode()


def test_an_answer_is_the_value_itself_or_the_output_of_a_result_body():
    assert read_output(b"[1.0]") == [1.0]
    assert read_output(encode({"status": "ok", "output": [1.0]})) == [1.0]


@pytest.mark.parametrize("value", [encode({"status": "expired"}), b"no json", b"\xff"])
def test_what_is_no_answer_has_no_output(value):
    assert read_output(value) is None


def test_numbers_agree_within_the_tolerance():
    found = compare_answers({0: b"[0.5, 0.505]", 1: b"[0.5, 0.6]"}, [[0.5, 0.5], [0.5, 0.5]], NUMBERS)

    assert (found.answers, found.agreeing) == (2, 1)
    assert found.largest_difference == pytest.approx(0.1)
    assert not found.holds


@pytest.mark.parametrize("answer", [b"[0.5]", b"null", b'{"a": 1}', b'"text"'])
def test_an_answer_of_another_form_disagrees(answer):
    for tolerance in (NUMBERS, DIRECTION):
        assert compare_answers({0: answer}, [[0.5, 0.5]], tolerance).agreeing == 0


def test_a_label_is_compared_by_name_and_probability():
    expected = [{"label": "cat", "probability": 0.9}]

    def agreeing(label, probability):
        return compare_answers({0: encode({"label": label, "probability": probability})}, expected, LABELS).agreeing

    assert agreeing("cat", 0.88) == 1
    assert agreeing("cat", 0.8) == 0
    assert agreeing("dog", 0.9) == 0


def test_of_a_list_of_labels_the_first_one_counts():
    expected = [[{"label": "cat", "probability": 0.9}, {"label": "dog", "probability": 0.1}]]
    swapped = encode([{"label": "dog", "probability": 0.9}, {"label": "cat", "probability": 0.1}])

    assert compare_answers({0: encode(expected[0])}, expected, LABELS).holds
    assert not compare_answers({0: swapped}, expected, LABELS).holds


def test_directions_agree_whatever_their_length():
    assert compare_answers({0: b"[2.0, 0.0]"}, [[1.0, 0.0]], DIRECTION).holds
    assert not compare_answers({0: b"[0.0, 0.0]"}, [[1.0, 0.0]], DIRECTION).holds
    assert not compare_answers({0: b"[0.0, 1.0]"}, [[1.0, 0.0]], DIRECTION).holds


def test_expected_answers_repeat_with_the_payloads():
    answers = {number: encode([float(number % 2)]) for number in range(10)}

    assert compare_answers(answers, [[0.0], [1.0]], NUMBERS).holds
    assert not compare_answers(answers, [[1.0], [0.0]], NUMBERS).holds


def test_an_answer_under_the_wrong_number_is_found_out():
    swapped = {0: b"[1.0]", 1: b"[0.0]"}

    assert compare_answers(swapped, [[0.0], [1.0]], NUMBERS).agreeing == 0


def test_no_answers_do_not_agree():
    assert not compare_answers({}, [[0.0]], NUMBERS).holds
