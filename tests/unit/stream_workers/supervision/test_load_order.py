"""What a model process is told about sizes, threads and the compiler."""

from pathlib import Path
from typing import Any

import pytest

from schemas.settings import Settings
from stream_workers.supervision.launcher import _compiler_variables, _decode_threads, _plan_sizes


def settings(batching: dict[str, Any] | None = None, **model: Any) -> Settings:
    return Settings(model=model, batching={"max_batch_size": 8, **(batching or {})})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "sizes"),
    [
        (settings(), ()),
        (settings(compile=True), (1, 2, 4, 8)),
        (settings(device="cuda:0"), (1, 2, 4, 8)),
        (settings({"size_buckets": []}, compile=True), ()),
        (settings({"size_buckets": [3]}), (3, 8)),
    ],
)
def test_sizes_are_rounded_where_it_pays_or_where_told(made: Settings, sizes: tuple[int, ...]) -> None:
    assert _plan_sizes(made) == sizes


@pytest.mark.parametrize(
    ("made", "threads"),
    [
        (settings(), 0),
        (settings(device="cuda"), 2),
        (settings(decode_threads=3), 3),
        (settings(device="cuda", decode_threads=0), 0),
    ],
)
def test_batches_overlap_where_the_processor_would_idle_or_where_told(made: Settings, threads: int) -> None:
    assert _decode_threads(made.model) == threads


def test_compiled_code_is_kept_in_the_cache_of_this_user(tmp_path: Path) -> None:
    assert _compiler_variables(str(tmp_path))["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "compiled")
