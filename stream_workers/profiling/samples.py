"""The records that a model is profiled with: as requests, cycled for as long as needed."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from producers.sources.images import read_images
from producers.sources.item import ItemError, Source
from producers.sources.rows import RowOptions, read_rows
from producers.sources.video import VideoOptions, read_video
from schemas.errors import ConfigurationError
from schemas.records import Request
from schemas.settings import LimitSettings
from stream_workers.batching.intake import shape_key
from stream_workers.batching.work import WorkItem
from stream_workers.profiling.worker_simulation import PARTITIONS

MAX_SAMPLES = 512
"""More say little more, and all of them are held in memory."""
_ROW_SUFFIXES = (".jsonl", ".ndjson", ".txt", ".npy", ".parquet")


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of one request."""

    payload: bytes
    content_type: str


def read_samples(path: Path, limits: LimitSettings) -> list[Sample]:
    """Read the first records of an image folder, a video or a file of rows.

    Raises ConfigurationError when the path cannot be read or a record in it is faulty.
    """
    samples = []
    for entry in itertools.islice(open_samples(path, limits), MAX_SAMPLES):
        if isinstance(entry, ItemError):
            raise ConfigurationError(f"--data {path}: {entry.label}: {entry.message}")
        samples.append(Sample(entry.payload, entry.content_type))
    if not samples:
        raise ConfigurationError(f"--data {path}: holds no record")
    return samples


def open_samples(path: Path, limits: LimitSettings) -> Source:
    """Open an image folder, a video or a file of rows. Raises ConfigurationError when there is no such path."""
    if path.is_dir():
        return read_images(path, limit_bytes=limits.payload_bytes)
    if not path.is_file():
        raise ConfigurationError(f"--data {path}: no such file or folder")
    if path.suffix.lower() in _ROW_SUFFIXES:
        return read_rows(path, RowOptions(limits.payload_bytes))
    return read_video(str(path), VideoOptions(max_pixels=limits.pixels))


def mean_payload_bytes(samples: Sequence[Sample]) -> float:
    """The mean size of a sample."""
    return sum(len(sample.payload) for sample in samples) / len(samples)


class SampleStream:
    """Turns samples into an endless stream of work items, spread over partitions as requests are."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        shapes = [shape_key(sample.content_type, sample.payload) for sample in samples]
        self._samples: Iterator[tuple[Sample, bytes | str]] = itertools.cycle(zip(samples, shapes, strict=True))
        self._offset = 0

    def take(self, count: int, polled_at: float) -> list[WorkItem]:
        """Return the next `count` records; offsets count up from 0 over all."""
        return [self._next(polled_at) for _ in range(count)]

    def _next(self, polled_at: float) -> WorkItem:
        sample, shape = next(self._samples)
        offset = self._offset
        self._offset += 1
        request = Request(
            id=str(offset),
            topic="profile",
            partition=offset % PARTITIONS,
            offset=offset,
            timestamp_ms=0,
            key=None,
            payload=sample.payload,
            content_type=sample.content_type,
        )
        return WorkItem(request, 1, polled_at, shape, len(sample.payload))


def likest(samples: Iterable[Sample]) -> list[Sample]:
    """Keep the samples of the commonest shape: only like shapes meet in a batch, so one batch is made of one shape."""
    by_shape: dict[bytes | str, list[Sample]] = {}
    for sample in samples:
        by_shape.setdefault(shape_key(sample.content_type, sample.payload), []).append(sample)
    return max(by_shape.values(), key=len)
