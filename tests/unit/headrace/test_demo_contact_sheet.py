"""The contact sheet: where things lie, and that they are drawn there."""

import io

import pytest
from PIL import Image

from headrace.demo import contact_sheet
from headrace.demo.contact_sheet import Row, Tile, choose_evenly, render, sheet_size, tile_box


def make_tile(colour: tuple[int, int, int], *, label: str = "tabby", probability: float = 0.5) -> Tile:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(buffer, "PNG")
    return Tile(buffer.getvalue(), label, probability, "frame 1")


def test_tiles_lie_inside_the_sheet_and_do_not_overlap() -> None:
    width, height = sheet_size(2, 3)
    boxes = [tile_box(row, column) for row in range(2) for column in range(3)]
    for box in boxes:
        assert box.left >= 0
        assert box.left + box.width <= width
        assert box.top + box.height <= height
    for first in boxes:
        for second in boxes:
            apart = first.left + first.width <= second.left or first.top + first.height <= second.top
            assert first is second or apart or second.left < first.left or second.top < first.top


def test_each_frame_is_drawn_in_its_own_box() -> None:
    sheet = render("t", "s", [Row("a", "", [make_tile((200, 10, 10)), make_tile((10, 200, 10))])])
    assert sheet.size == sheet_size(1, 2)
    for column, colour in enumerate([(200, 10, 10), (10, 200, 10)]):
        box = tile_box(0, column)
        middle = sheet.getpixel((box.left + 100, box.top + 60))
        assert middle == colour


def test_the_bar_under_a_frame_is_as_long_as_its_probability() -> None:
    sheet = render("t", "s", [Row("a", "", [make_tile((0, 0, 0), probability=0.75)])])
    box = tile_box(0, 0)
    middle = box.top + contact_sheet.TILE_HEIGHT + 34
    lengths = [sheet.getpixel((box.left + 10 + x, middle)) for x in range(box.width - 20)]
    filled = sum(pixel == contact_sheet.ACCENT for pixel in lengths)
    assert filled == pytest.approx(0.75 * (box.width - 20), abs=4)


def test_a_label_too_long_for_its_tile_is_shortened_and_stays_inside() -> None:
    short = render("t", "s", [Row("a", "", [make_tile((0, 0, 0), label="x")])])
    long = render("t", "s", [Row("a", "", [make_tile((0, 0, 0), label="x" * 400)])])
    box = tile_box(0, 0)
    right = (box.left + box.width, 0, long.width, long.height)
    assert long.crop(right).tobytes() == short.crop(right).tobytes()


def test_a_sheet_without_frames_can_still_be_drawn() -> None:
    assert render("t", "s", []).size[0] > 0
    assert render("t", "s", [Row("a", "nothing answered", [])]).size[1] > 0


@pytest.mark.parametrize(
    ("count", "wanted", "expected"),
    [(0, 6, []), (3, 6, [0, 1, 2]), (30, 6, [0, 6, 12, 17, 23, 29]), (5, 1, [0]), (5, 0, [])],
)
def test_choices_are_spread_from_the_first_to_the_last(count: int, wanted: int, expected: list[int]) -> None:
    assert choose_evenly(count, wanted) == expected
