import random

from stream_workers.caching.hit_watch import SAMPLE_OF, WINDOW, HitWatch


def feed(watch: HitWatch, payloads: list[bytes], known: set[bytes]) -> int:
    """Look payloads up as the cache would; returns how many were looked up."""
    looked_up = 0
    for payload in payloads:
        sampled = watch.is_sampled(payload)
        if watch.bypasses and not sampled:
            continue
        looked_up += 1
        if sampled:
            watch.note(hit=payload in known)
        known.add(payload)
    return looked_up


def contents(count: int, seed: int = 0) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(200) for _ in range(count)]


def test_unique_contents_are_bypassed_but_for_the_sample() -> None:
    watch = HitWatch(0.05)
    feed(watch, contents(WINDOW * SAMPLE_OF * 2), set())
    assert watch.bypasses
    more = contents(16_000, seed=1)
    assert 0 < feed(watch, more, set()) < 2 * len(more) / SAMPLE_OF


def test_repeats_are_noticed_while_it_bypasses() -> None:
    watch, known = HitWatch(0.05), set[bytes]()
    feed(watch, contents(WINDOW * SAMPLE_OF * 2), known)
    hot = contents(1000, seed=2)
    feed(watch, hot * 5, known)
    assert not watch.bypasses


def test_even_one_single_content_is_noticed() -> None:
    for seed in range(20):
        watch, known = HitWatch(0.05), set[bytes]()
        feed(watch, contents(WINDOW * SAMPLE_OF * 2), known)
        feed(watch, contents(1, seed=100 + seed) * 20_000, known)
        assert not watch.bypasses


def test_contents_that_come_round_slower_than_a_window_are_kept() -> None:
    watch, known = HitWatch(0.05), set[bytes]()
    feed(watch, contents(20_000) * 2, known)
    assert not watch.bypasses


def test_a_repeat_is_sampled_as_its_first_was() -> None:
    watch = HitWatch(0.05)
    assert all(watch.is_sampled(payload) == watch.is_sampled(payload) for payload in contents(100))


def test_without_a_least_rate_nothing_is_ever_bypassed() -> None:
    watch = HitWatch(0.0)
    feed(watch, contents(WINDOW * SAMPLE_OF * 4), set())
    assert not watch.bypasses


def test_payloads_of_every_length_can_be_sampled() -> None:
    watch = HitWatch(0.05)
    for length in (0, 1, 63, 64, 65, 127, 128, 1 << 20):
        watch.is_sampled(bytes(length))
