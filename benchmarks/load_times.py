"""How long a version takes to become tensors: `python -m benchmarks.load_times`. Writes JSON and Markdown.

Per size and round, in rotating order, all in one process with torch already imported:

- *disk read*: the weights file read from start to end with nothing of it in the page cache: the limit of *warm*;
- *disk write*: as many bytes written to a new file and synced: the limit of *cold*, which does both;
- *cold*: the version is in the store alone, and nothing of it in memory: copied into the local cache, hashed, loaded;
- *warm*: in the local cache, and nothing of it in memory;
- *page cache*: in the local cache and in memory.

`ready` is until the module holds its tensors; `touched` until every page of them was read, as the first batch would.
A page cache is emptied for one file by fsync and POSIX_FADV_DONTNEED, which what lies below (a hypervisor, a disk's own
memory) may answer from its own: hence the disk's speed from the same rounds.
"""

import argparse
import gc
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from model_store.inference_model import InferenceModel
from model_store.local_cache import LocalCache
from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore, ResolvedVersion
from model_store.torch_loader import load_model, save_state
from model_store.verified_stamp import stamp_path
from schemas.manifest import WEIGHTS_FILE

MODEL_CLASS = "layers"
CLASSES = {MODEL_CLASS: "benchmarks.load_times:Layers"}
SIZES = {"25 MB": (6, 1024), "1 GB": (60, 2048)}
"""Name of a version to its number of square layers and their width; float32, so layers x width x width x 4 bytes."""
_READ_BYTES = 1 << 20
_PAGE_BYTES = 4096


class Layers(InferenceModel):
    """Square linear layers, `options.layers` of `options.width`. Built without memory, so that loading alone counts."""

    def build(self) -> Any:
        """The module, on the meta device."""
        return build_layers(int(self.context.options["layers"]), int(self.context.options["width"]), "meta")


@dataclass(frozen=True)
class Sample:
    """One measurement: seconds, and the bytes that became tensors."""

    size: str
    kind: str
    round: int
    file_bytes: int
    ready_seconds: float
    touched_seconds: float


def build_layers(count: int, width: int, device: str) -> torch.nn.Module:
    """A stack of layers without biases."""
    layers = (torch.nn.Linear(width, width, bias=False, device=device) for _ in range(count))
    return torch.nn.Sequential(*layers)


class Bench:
    """The published versions in one folder, and the ways to load them."""

    def __init__(self, folder: Path) -> None:
        self._store = ModelStore(folder / "store")
        self._cache = LocalCache(folder / "cache", 8 << 30)
        self._versions: dict[str, ResolvedVersion] = {}

    def publish(self, size: str) -> None:
        """Publish a version of that size with weights that no disk can compress."""
        layers, width = SIZES[size]
        name = f"v{layers}x{width}"
        draft = VersionDraft("m", name, MODEL_CLASS, options={"layers": layers, "width": width})
        publish_state(self._store, draft, build_layers(layers, width, "cpu").state_dict(), save_state)
        self._versions[size] = self._store.resolve("m", name)

    def kinds(self) -> dict[str, Callable[[str], tuple[float, float]]]:
        """Every way to measure, by name."""
        return {
            "disk read": self._read_disk,
            "disk write": self._write_disk,
            "cold": self._cold,
            "warm": self._warm,
            "page cache": self._page_cached,
        }

    def file_bytes(self, size: str) -> int:
        """Bytes of a version's weights file."""
        return self._versions[size].manifest.files[0].size

    def _source(self, size: str) -> Path:
        return self._versions[size].directory / WEIGHTS_FILE

    def _cached(self, size: str) -> Path:
        return self._cache.directory / self._versions[size].manifest.files[0].sha256

    def _read_disk(self, size: str) -> tuple[float, float]:
        buffer = memoryview(bytearray(_READ_BYTES))
        _forget(self._source(size))
        with self._source(size).open("rb", buffering=0) as file:
            began = time.perf_counter()
            while file.readinto(buffer):
                pass
            seconds = time.perf_counter() - began
        return seconds, seconds

    def _write_disk(self, size: str) -> tuple[float, float]:
        block, path = os.urandom(_READ_BYTES), self._cache.directory.with_name("written")
        with path.open("wb", buffering=0) as file:
            began = time.perf_counter()
            for _ in range(self.file_bytes(size) // _READ_BYTES):
                file.write(block)
            os.fsync(file.fileno())
            seconds = time.perf_counter() - began
        path.unlink()
        return seconds, seconds

    def _cold(self, size: str) -> tuple[float, float]:
        for path in (self._cached(size), stamp_path(self._cached(size))):
            path.unlink(missing_ok=True)
        _forget(self._source(size))
        return self._load(size)

    def _warm(self, size: str) -> tuple[float, float]:
        self._cache.fetch_weights(self._versions[size]).close()
        _forget(self._cached(size))
        return self._load(size)

    def _page_cached(self, size: str) -> tuple[float, float]:
        self._cache.fetch_weights(self._versions[size]).close()
        with self._cached(size).open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
        return self._load(size)

    def _load(self, size: str) -> tuple[float, float]:
        version = self._versions[size]
        began = time.perf_counter()
        with self._cache.fetch_weights(version) as cached:
            loaded = load_model(cached.path, version.manifest, CLASSES)
            ready = time.perf_counter() - began
            for tensor in loaded.module.state_dict().values():
                tensor.reshape(-1).view(torch.uint8)[::_PAGE_BYTES].sum()
            touched = time.perf_counter() - began
        del loaded, tensor
        gc.collect()  # a file that is mapped keeps its pages
        return ready, touched


def _forget(path: Path) -> None:
    """Take a file out of the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def measure(bench: Bench, sizes: Sequence[str], rounds: int) -> list[Sample]:
    """Measure every kind of every size, in an order that turns from round to round."""
    kinds = list(bench.kinds().items())
    samples = []
    for number in range(rounds):
        for size in sizes:
            for name, run in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
                ready, touched = run(size)
                samples.append(Sample(size, name, number, bench.file_bytes(size), ready, touched))
                print(f"round {number + 1}: {size}, {name}: {touched:.3f} s", file=sys.stderr, flush=True)
    return samples


def render(samples: Sequence[Sample]) -> str:
    """Medians as a Markdown table; the last column is the share of the speed of the disk, written for *cold*."""
    lines = [
        "| version | from | ready, s | touched, s | MB/s | lowest to highest, s | of the disk |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for size, kind in dict.fromkeys((sample.size, sample.kind) for sample in samples):
        own = [sample for sample in samples if (sample.size, sample.kind) == (size, kind)]
        limit = "disk write" if kind in ("cold", "disk write") else "disk read"
        disk = _median([sample for sample in samples if (sample.size, sample.kind) == (size, limit)])
        touched = _median(own)
        ready = statistics.median(sample.ready_seconds for sample in own)
        low, high = min(s.touched_seconds for s in own), max(s.touched_seconds for s in own)
        speed = own[0].file_bytes / touched / 1e6
        cells = (size, kind, f"{ready:.3f}", f"{touched:.3f}", f"{speed:.0f}", f"{low:.3f} to {high:.3f}")
        lines.append(f"| {' | '.join(cells)} | {disk / touched:.2f} |")
    return "\n".join(lines) + "\n"


def _median(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.touched_seconds for sample in samples)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load_times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--folder", type=Path, help="on the disk to measure; a temporary one if not given")
    parser.add_argument("--out", type=Path, default=Path("out/load-times"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="headrace-load-times-", dir=options.folder))
    try:
        bench = Bench(folder)
        for size in options.sizes:
            bench.publish(size)
        samples = measure(bench, options.sizes, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = {"python": platform.python_version(), "torch": torch.__version__, "kernel": platform.release()}
    report = {"facts": facts, "samples": [asdict(sample) for sample in samples]}
    (options.out / "load_times.json").write_text(json.dumps(report, indent=2) + "\n")
    (options.out / "load_times.md").write_text(render(samples))
    print(render(samples))


if __name__ == "__main__":
    main()
