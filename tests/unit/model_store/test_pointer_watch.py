from model_store.pointer_watch import PointerWatch
from model_store.timeline import Timeline


def timeline(epochs: int, version: str = "v1") -> Timeline:
    result = Timeline()
    for _ in range(epochs):
        result = result.with_activation(version, result.epoch, 0)
    return result


def test_a_first_and_every_higher_epoch_move_it() -> None:
    watch = PointerWatch(now=0)

    assert watch.observe(timeline(1), 1) == timeline(1)
    assert watch.observe(timeline(1), 2) is None
    assert watch.observe(timeline(5), 3) == timeline(5)
    assert watch.known == timeline(5)


def test_a_lower_epoch_is_ignored_and_counted() -> None:
    watch = PointerWatch(now=0, known=timeline(5))

    assert watch.observe(timeline(4), 10) is None
    assert watch.known == timeline(5)
    assert watch.counts.lower_epochs == 1
    assert watch.stale_seconds(10) == 10


def test_a_rewritten_decision_of_the_same_epoch_is_ignored_and_counted() -> None:
    watch = PointerWatch(now=0, known=timeline(2))

    assert watch.observe(timeline(2, "v9"), 1) is None
    assert watch.known == timeline(2)
    assert watch.counts.rewritten_epochs == 1


def test_an_emptied_key_an_invalid_value_and_silence_keep_what_is_known() -> None:
    watch = PointerWatch(now=0, known=timeline(2))

    assert watch.observe(None, 1) is None
    watch.observe_invalid()
    watch.observe_unavailable()

    assert watch.known == timeline(2)
    assert (watch.counts.missing, watch.counts.invalid, watch.counts.unavailable) == (1, 1, 1)
    assert watch.stale_seconds(30) == 30


def test_a_confirming_read_makes_it_fresh() -> None:
    watch = PointerWatch(now=0, known=timeline(2))

    watch.observe(timeline(2), 20)

    assert watch.stale_seconds(21) == 1
    assert watch.stale_seconds(19) == 0


def test_before_the_first_version_a_missing_key_is_no_news() -> None:
    watch = PointerWatch(now=0, known=Timeline())

    assert watch.observe(None, 5) is None
    assert watch.known is None
    assert watch.counts.missing == 0
    assert watch.stale_seconds(5) == 0
