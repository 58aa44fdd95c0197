"""The file that a profile ends with."""

from pathlib import Path

import pytest

from schemas.configuration import load_settings
from schemas.errors import ConfigurationError
from stream_workers.profiling.choice import Choice, Goal
from stream_workers.profiling.forecast import Forecast, Latencies
from stream_workers.profiling.service_curve import SizeTimes, fit_curve
from stream_workers.profiling.settings_file import read_base, render, write_text
from stream_workers.profiling.setups import Candidate, Setup, WaitChoice

CURVE = fit_curve([SizeTimes(1, (0.011,)), SizeTimes(8, (0.018,))])


def choice(wait: WaitChoice) -> Choice:
    expected = Forecast(200, Latencies(0.02, 0.05), Latencies(0.08, 0.14), 5.5)
    return Choice(Candidate(Setup("v2", 2, 1, 1), 8, wait), 321.0, expected)


@pytest.mark.parametrize("wait", ["auto", 5.0])
def test_what_is_written_is_read_as_settings_with_the_base_kept(tmp_path: Path, wait: WaitChoice) -> None:
    base = tmp_path / "base.yaml"
    base.write_text("model: {name: mine, threads: 7}\nbatching: {max_batch_bytes: 16777216}\nworker: {members: 2}\n")
    written = tmp_path / "chosen.yaml"
    write_text(written, render(choice(wait), Goal(200, 0.15), CURVE, read_base(base), with_version=False))
    settings = load_settings(written, {})
    assert (settings.model.name, settings.worker.members, settings.batching.max_batch_bytes) == ("mine", 2, 16 << 20)
    assert (settings.model.instances, settings.model.threads, settings.model.version) == (2, 1, None)
    batching = settings.batching
    assert (batching.max_batch_size, batching.max_wait_ms, batching.slots) == (8, wait, 1)


def test_the_comments_say_what_was_measured() -> None:
    text = render(choice(0.0), Goal(200, 0.15), CURVE, {}, with_version=True)
    assert "service time = 10.00 ms + 1.000 ms per record" in text
    assert "p99 140 ms" in text
    assert "321/s" in text
    assert "version: v2" in text


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--write .*no/such"):
        write_text(tmp_path / "no/such/file.yaml", "")
