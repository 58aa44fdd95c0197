"""The contact sheet: frames of every stream with what the model saw in them. Pixels in, a picture out."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

TILE_WIDTH, TILE_HEIGHT = 264, 168
CAPTION_HEIGHT = 46
GAP = 14
MARGIN = 32
TITLE_HEIGHT = 92
ROW_TITLE_HEIGHT = 38
BACKGROUND, PANEL, TRACK = (17, 20, 26), (27, 32, 41), (52, 60, 74)
BRIGHT, DIM, ACCENT, UNSURE = (236, 240, 245), (146, 157, 173), (86, 196, 182), (224, 171, 84)
SURE = 0.5
"""From this probability on, the bar under a frame has the colour of a sure answer."""


@dataclass(frozen=True)
class Tile:
    """One frame and its answer. `footnote` says which frame it is."""

    jpeg: bytes
    label: str
    probability: float
    footnote: str


@dataclass(frozen=True)
class Row:
    """The frames of one stream, in order."""

    title: str
    subtitle: str
    tiles: Sequence[Tile]


@dataclass(frozen=True)
class Box:
    """A rectangle on the sheet, in pixels."""

    left: int
    top: int
    width: int
    height: int


def sheet_size(row_count: int, column_count: int) -> tuple[int, int]:
    """Return the width and height of a sheet with that many rows and columns."""
    width = 2 * MARGIN + column_count * TILE_WIDTH + (column_count - 1) * GAP
    return width, TITLE_HEIGHT + row_count * _row_height() + MARGIN


def tile_box(row: int, column: int) -> Box:
    """Return where a tile lies, its caption included."""
    left = MARGIN + column * (TILE_WIDTH + GAP)
    top = TITLE_HEIGHT + row * _row_height() + ROW_TITLE_HEIGHT
    return Box(left, top, TILE_WIDTH, TILE_HEIGHT + CAPTION_HEIGHT)


def choose_evenly(count: int, wanted: int) -> list[int]:
    """Return up to `wanted` indexes spread evenly over `count` things, the first and the last among them."""
    if wanted <= 1 or count <= wanted:
        return list(range(min(count, max(wanted, 0))))
    return [round(index * (count - 1) / (wanted - 1)) for index in range(wanted)]


def render(title: str, subtitle: str, rows: Sequence[Row]) -> "Image.Image":
    """Draw the sheet. It is as wide as its longest row."""
    from PIL import Image, ImageDraw  # noqa: PLC0415 - heavy, and only the demo needs it

    columns = max((len(row.tiles) for row in rows), default=1)
    sheet = Image.new("RGB", sheet_size(len(rows), max(1, columns)), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    _write(draw, (MARGIN, 24), title, 26, BRIGHT, sheet.width - 2 * MARGIN)
    _write(draw, (MARGIN, 58), subtitle, 15, DIM, sheet.width - 2 * MARGIN)
    for index, row in enumerate(rows):
        top = TITLE_HEIGHT + index * _row_height()
        name_width = _write(draw, (MARGIN, top + 8), row.title, 18, ACCENT, sheet.width // 3)
        _write(draw, (MARGIN + name_width + 14, top + 11), row.subtitle, 14, DIM, sheet.width // 2)
        for column, tile in enumerate(row.tiles):
            _draw_tile(sheet, draw, tile, tile_box(index, column))
    return sheet


def _draw_tile(sheet: "Image.Image", draw: "ImageDraw.ImageDraw", tile: Tile, box: Box) -> None:
    from PIL import Image, ImageOps  # noqa: PLC0415 - heavy, and only the demo needs it

    draw.rounded_rectangle((box.left, box.top, box.left + box.width - 1, box.top + box.height - 1), 6, fill=PANEL)
    with Image.open(io.BytesIO(tile.jpeg)) as frame:
        sheet.paste(ImageOps.fit(frame.convert("RGB"), (TILE_WIDTH, TILE_HEIGHT)), (box.left, box.top))
    left, top = box.left + 10, box.top + TILE_HEIGHT
    number = f"{tile.probability:.0%}"
    _write(draw, (left, top + 6), tile.label, 16, BRIGHT, box.width - 72)
    number_left = box.left + box.width - 10 - _text_width(draw, number, 16)
    _write(draw, (number_left, top + 6), number, 16, BRIGHT, 60)
    _draw_bar(draw, Box(left, top + 32, box.width - 20, 5), tile.probability)
    _draw_footnote(draw, tile.footnote, box)


def _draw_bar(draw: "ImageDraw.ImageDraw", box: Box, share: float) -> None:
    share = min(1.0, max(0.0, share))
    draw.rounded_rectangle((box.left, box.top, box.left + box.width, box.top + box.height), 2, fill=TRACK)
    filled = (box.left, box.top, box.left + max(4, round(box.width * share)), box.top + box.height)
    draw.rounded_rectangle(filled, 2, fill=ACCENT if share >= SURE else UNSURE)


def _draw_footnote(draw: "ImageDraw.ImageDraw", text: str, box: Box) -> None:
    if not text:
        return
    width = _text_width(draw, text, 12)
    right, bottom = box.left + box.width - 6, box.top + TILE_HEIGHT - 6
    draw.rounded_rectangle((right - width - 12, bottom - 18, right, bottom), 4, fill=BACKGROUND)
    _write(draw, (right - width - 6, bottom - 16), text, 12, DIM, width + 4)


def _write(
    draw: "ImageDraw.ImageDraw",
    at: tuple[int, int],
    text: str,
    size: int,
    colour: tuple[int, int, int],
    width: int,
) -> int:
    """Write one line, shortened to `width` pixels; return how wide it became."""
    fitted = text
    while fitted and _text_width(draw, fitted, size) > width:
        fitted = fitted.removesuffix("…")[:-1].rstrip() + "…" if len(fitted) > 1 else ""
    draw.text(at, fitted, fill=colour, font_size=size)
    return _text_width(draw, fitted, size)


def _text_width(draw: "ImageDraw.ImageDraw", text: str, size: int) -> int:
    return round(draw.textlength(text, font_size=size))


def _row_height() -> int:
    return ROW_TITLE_HEIGHT + TILE_HEIGHT + CAPTION_HEIGHT + GAP
