from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from stream_workers.caching.answer_store import ENTRY_OVERHEAD_BYTES, AnswerStore


def test_what_was_put_is_got() -> None:
    store = AnswerStore(10_000)
    store.put(b"a", b"1")
    store.put(b"a", b"22")
    assert store.get(b"a") == b"22"
    assert store.get(b"b") is None
    assert store.held_bytes == ENTRY_OVERHEAD_BYTES + 2


def test_what_was_used_longest_ago_goes_first() -> None:
    store = AnswerStore(3 * ENTRY_OVERHEAD_BYTES + 3)
    for key in (b"a", b"b", b"c"):
        store.put(key, b"1")
    store.get(b"a")
    store.put(b"d", b"1")
    assert [store.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1", None, b"1", b"1"]


def test_an_output_that_can_never_fit_throws_nothing_out() -> None:
    store = AnswerStore(2 * ENTRY_OVERHEAD_BYTES)
    store.put(b"a", b"1")
    store.put(b"b", b"x" * 2 * ENTRY_OVERHEAD_BYTES)
    assert store.get(b"a") == b"1"
    assert store.get(b"b") is None


@given(
    st.integers(ENTRY_OVERHEAD_BYTES, 5 * ENTRY_OVERHEAD_BYTES),
    st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(0, 3 * ENTRY_OVERHEAD_BYTES)), max_size=60),
)
def test_it_is_always_within_its_bound_and_says_what_a_plain_model_says(
    max_bytes: int, steps: list[tuple[bool, int, int]]
) -> None:
    store, model = AnswerStore(max_bytes), OrderedDict[bytes, bytes]()
    for is_put, number, size in steps:
        key = bytes([number])
        if not is_put:
            assert store.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        else:
            output = b"x" * size
            store.put(key, output)
            if size + ENTRY_OVERHEAD_BYTES <= max_bytes:
                model.pop(key, None)
                model[key] = output
                while sum(ENTRY_OVERHEAD_BYTES + len(value) for value in model.values()) > max_bytes:
                    model.popitem(last=False)
        assert store.held_bytes <= max_bytes
        assert store.held_bytes == sum(ENTRY_OVERHEAD_BYTES + len(value) for value in model.values())
        assert len(store) == len(model)
