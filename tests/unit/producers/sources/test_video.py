"""Frames of a small clip made here, and files that are none."""

import io

import av
import numpy
import pytest
from PIL import Image

from producers.sources.item import Item, ItemError
from producers.sources.video import VideoOptions, read_video
from schemas.records import JPEG


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(12):
            pixels = numpy.full((48, 64, 3), number * 20, dtype=numpy.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def test_every_frame_is_a_jpeg_in_order_with_its_time(clip):
    frames = list(read_video(str(clip)))
    assert [frame.sequence for frame in frames] == list(range(12))
    assert {frame.content_type for frame in frames} == {JPEG}
    assert frames[3].media_seconds == pytest.approx(0.3)
    image = Image.open(io.BytesIO(frames[5].payload))
    assert image.size == (64, 48)
    assert abs(image.getpixel((10, 10))[0] - 100) < 8


def test_frames_above_the_pixel_limit_are_refused_before_decoding(clip):
    (fault,) = read_video(str(clip), VideoOptions(max_pixels=1000))
    assert fault.final
    assert "3072 pixels; at most 1000" in fault.message


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:9/a.mp4",
        "https://x/y",
        "concat:a|b",
        "data:abc",
        "subfile,,start,0,end,9,,:/etc/hostname",
        "ftp://x",
    ],
)
def test_other_protocols_are_refused(address):
    (fault,) = read_video(address)
    assert isinstance(fault, ItemError)
    assert fault.final


def test_a_play_list_cannot_make_the_reader_open_other_files(clip, tmp_path):
    for name, text in (
        ("list.m3u8", f"#EXTM3U\n#EXTINF:10,\n{clip}\n"),
        ("list.ffconcat", f"ffconcat version 1.0\nfile '{clip}'\n"),
    ):
        (tmp_path / name).write_text(text)
        (fault,) = read_video(str(tmp_path / name))
        assert fault.final


@pytest.mark.parametrize("content", [b"", b"text", b"\x00" * 1000, b"\xff\xd8\xff"])
def test_a_file_that_is_no_video_ends_its_stream_with_a_reason(tmp_path, content):
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    (fault,) = read_video(str(path))
    assert fault.final
    assert "cannot be opened" in fault.message


def test_a_missing_file_ends_its_stream_with_a_reason():
    (fault,) = read_video("/absent/a.mp4")
    assert "No such file" in fault.message


@pytest.mark.parametrize("seed", range(5))
def test_damaged_frames_are_counted_and_nothing_is_raised(clip, tmp_path, seed):
    content = bytearray(clip.read_bytes())
    dice = numpy.random.default_rng(seed)
    for place in dice.integers(60, len(content) - 700, 20):
        content[place] = dice.integers(256)
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(content)
    assert all(isinstance(frame, Item | ItemError) for frame in read_video(str(damaged)))
