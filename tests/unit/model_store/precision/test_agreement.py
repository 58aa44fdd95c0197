import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from model_store.precision.agreement import compare

LOGITS = np.asarray([[3, 1, 0], [0, 2, 1], [1, 0, 5], [9, 1, 2]], np.float32)


@given(arrays(np.float32, (5, 4), elements=st.floats(-1000, 1000, width=32)))
def test_anything_agrees_with_itself(logits: np.ndarray) -> None:  # type: ignore[type-arg]
    found = compare([logits], [logits], is_classifier=True)

    assert (found.records, found.disagreement, found.relative_error, found.broken) == (5, 0, 0, 0)
    assert found.divergence == pytest.approx(0, abs=1e-9)


def test_changed_winners_are_counted_over_all_batches() -> None:
    changed = LOGITS.copy()
    changed[1] = [5, 2, 1]

    found = compare([LOGITS[:2], LOGITS[2:]], [changed[:2], changed[2:]], is_classifier=True)

    assert (found.records, found.disagreement) == (4, 0.25)
    assert found.divergence > 0


def test_a_record_that_becomes_nan_disagrees_and_is_named_broken() -> None:
    changed = LOGITS.copy()
    changed[3, 1] = np.nan

    found = compare([LOGITS], [changed], is_classifier=True)

    assert (found.disagreement, found.broken, found.relative_error) == (0.25, 1, 0)
    assert compare([LOGITS], [changed], is_classifier=False).disagreement == math.inf


def test_a_record_that_float32_answers_with_infinity_is_left_out() -> None:
    odd = LOGITS.copy()
    odd[0, 0] = np.inf

    assert compare([odd], [odd], is_classifier=True).records == 3


def test_other_outputs_are_compared_by_relative_error() -> None:
    assert compare([LOGITS], [LOGITS * 1.1], is_classifier=False).disagreement == pytest.approx(0.1, rel=1e-4)
    assert compare([LOGITS * 0], [LOGITS], is_classifier=False).disagreement == math.inf
