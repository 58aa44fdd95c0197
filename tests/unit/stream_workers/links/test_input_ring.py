import os
from collections.abc import Iterator

import pytest

from schemas.settings import Settings
from stream_workers.links.input_ring import IDLE, PAGE_BYTES, InputRing, create_ring, slot_bytes_for

SLOT_BYTES = 2 * PAGE_BYTES
Rings = tuple[InputRing, InputRing]


@pytest.fixture
def rings() -> Iterator[Rings]:
    descriptor = create_ring(3, SLOT_BYTES)
    pair = InputRing(os.dup(descriptor), 3, SLOT_BYTES), InputRing(descriptor, 3, SLOT_BYTES)
    yield pair
    for ring in pair:
        ring.close()


def test_what_one_side_writes_the_other_reads(rings: Rings) -> None:
    member, model = rings
    for slot in range(3):
        member.write(slot, bytes([slot]) * SLOT_BYTES)
    for slot in range(3):
        with model.read(slot, SLOT_BYTES) as view:
            assert view.readonly
            assert view == bytes([slot]) * SLOT_BYTES


@pytest.mark.parametrize(("slot", "size"), [(3, 1), (-1, 1), (0, SLOT_BYTES + 1)])
def test_nothing_is_written_or_read_outside_a_slot(rings: Rings, slot: int, size: int) -> None:
    member, model = rings
    with pytest.raises(ValueError, match="there are 3"):
        member.write(slot, bytes(size))
    with pytest.raises(ValueError, match="there are 3"):
        model.read(slot, size)


def test_progress_tells_the_batch_and_the_record_in_hand(rings: Rings) -> None:
    member, model = rings
    model.reset()
    assert member.progress()[:2] == (IDLE, IDLE)
    model.begin(7)
    assert member.progress()[:2] == (7, IDLE)
    before = member.progress().counter
    model.touch(3)
    assert member.progress()[:2] == (7, 3)
    assert member.progress().counter > before
    model.count_answer()
    model.reset()
    assert member.progress()[:2] == (IDLE, IDLE)
    assert member.progress().answers == 1


def test_progress_names_a_batch_in_preparation_beside_the_one_that_runs(rings: Rings) -> None:
    member, model = rings
    assert member.progress().preparing == IDLE  # also in fresh memory
    model.begin(0)
    model.prepare(0)
    before = member.progress().counter
    model.touch_preparing()
    assert member.progress().counter > before
    assert (member.progress().batch_id, member.progress().preparing) == (0, 0)
    model.reset()
    assert (member.progress().batch_id, member.progress().preparing) == (IDLE, 0)
    model.prepare(IDLE)
    assert member.progress().preparing == IDLE


def test_the_memory_cannot_shrink_under_the_other_side() -> None:
    descriptor = create_ring(1, SLOT_BYTES)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


def test_a_slot_holds_the_largest_batch_in_whole_pages() -> None:
    settings = Settings(batching={"max_batch_bytes": 8 * 1024 * 1024 + 1})  # type: ignore[arg-type]
    assert slot_bytes_for(settings) == 8 * 1024 * 1024 + PAGE_BYTES
