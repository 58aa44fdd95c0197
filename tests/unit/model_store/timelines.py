"""Timelines for property-based tests: any history that the operations themselves can make."""

from hypothesis import strategies as st

from model_store.timeline import MAX_ENTRIES, Author, SwitchMode, Timeline

NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True)
SPLITS = st.dictionaries(NAMES, st.integers(1, 100), min_size=1, max_size=4)
PRINTABLE = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=20)
AUTHORS = st.builds(Author, PRINTABLE, PRINTABLE)


@st.composite
def timelines(draw: st.DrawFn, max_entries: int = MAX_ENTRIES + 5, latest_ms: int = 2**40) -> Timeline:
    """Activations of both modes, at clocks that may step back, with epochs lifted now and then."""
    timeline = Timeline()
    for split in draw(st.lists(SPLITS, min_size=1, max_size=max_entries)):
        now_ms = draw(st.integers(0, latest_ms))
        mode = draw(st.sampled_from(SwitchMode))
        timeline = timeline.with_activation(
            split,
            timeline.epoch,
            now_ms,
            draw(st.sampled_from((0, 0, 0, timeline.epoch + 3))),
            effective_from_ms=now_ms + draw(st.integers(0, 5000)) if mode is SwitchMode.EXACT else None,
            author=draw(AUTHORS),
        )
    return timeline
