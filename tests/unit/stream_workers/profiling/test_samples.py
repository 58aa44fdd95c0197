"""The records that a model is profiled with."""

from pathlib import Path

import numpy as np
import pytest

from schemas.errors import ConfigurationError
from schemas.records import JSON, NPY
from schemas.settings import LimitSettings
from stream_workers.profiling.samples import MAX_SAMPLES, Sample, SampleStream, likest, read_samples

LIMITS = LimitSettings()


def test_rows_are_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": 1}\n' * (MAX_SAMPLES + 5))
    samples = read_samples(path, LIMITS)
    assert len(samples) == MAX_SAMPLES
    assert samples[0] == Sample(b'{"x": 1}', JSON)


def test_arrays_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((3, 2), dtype=np.float32))
    assert [one.content_type for one in read_samples(tmp_path / "rows.npy", LIMITS)] == [NPY] * 3


@pytest.mark.parametrize("name", ["missing", "empty.jsonl", "broken.jsonl", "text.mp4"])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "broken.jsonl").write_text("{\n")
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(ConfigurationError, match=name):
        read_samples(tmp_path / name, LIMITS)


def test_a_stream_repeats_its_samples_with_rising_offsets() -> None:
    stream = SampleStream([Sample(b"1", JSON), Sample(b"22", JSON)])
    items = stream.take(2, 1.0) + stream.take(3, 2.0)
    assert [one.request.payload for one in items] == [b"1", b"22", b"1", b"22", b"1"]
    assert [one.request.offset for one in items] == [0, 1, 2, 3, 4]
    assert [one.polled_at for one in items] == [1.0, 1.0, 2.0, 2.0, 2.0]


def test_only_the_commonest_shape_is_kept() -> None:
    samples = [Sample(b"1", JSON), Sample(b"2", JSON), Sample(b"text", "text/plain")]
    assert likest(samples) == samples[:2]
