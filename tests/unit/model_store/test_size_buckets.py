from hypothesis import given
from hypothesis import strategies as st

from model_store.size_buckets import bucket_for, plan_buckets

SIZES = st.integers(1, 65_536)


@given(SIZES, st.booleans(), st.none() | st.lists(SIZES, max_size=12))
def test_buckets_rise_to_the_largest_batch_and_hold_every_batch(
    largest: int, needed: bool, configured: list[int] | None
) -> None:
    buckets = plan_buckets(configured, largest, needed=needed)

    assert list(buckets) == sorted(set(buckets))
    if buckets:
        assert buckets[-1] == largest
        assert all(bucket_for(count, buckets) >= count for count in (1, largest // 2 or 1, largest))


@given(SIZES)
def test_by_default_less_than_half_of_a_batch_is_padding(largest: int) -> None:
    buckets = plan_buckets(None, largest, needed=True)

    assert all(bucket_for(count, buckets) < 2 * count for count in {1, 3, largest // 2 + 1} if count <= largest)


def test_without_need_or_with_an_empty_list_every_size_runs_as_it_is() -> None:
    assert plan_buckets(None, 16, needed=False) == ()
    assert plan_buckets([], 16, needed=True) == ()
    assert [bucket_for(count, ()) for count in (1, 7, 16)] == [1, 7, 16]


def test_powers_of_two_and_configured_sizes() -> None:
    assert plan_buckets(None, 24, needed=True) == (1, 2, 4, 8, 16, 24)
    assert plan_buckets([4, 12], 16, needed=False) == (4, 12, 16)


def test_more_records_than_the_largest_bucket_run_as_they_are() -> None:
    assert bucket_for(17, (8, 16)) == 17
