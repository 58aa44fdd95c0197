import io

import pytest
import simplejpeg
from PIL import Image

from benchmarks.agreement import Agreement
from benchmarks.options import read_options
from benchmarks.runner.arena import PLAIN, Run
from benchmarks.scenarios.cache import Cache, add_comment
from benchmarks.scenarios.scenario import Context


class FakeArena:
    """A cache that doubles the rate on repeated inputs and costs a tenth on unique ones."""

    def measure(self, workload, contestant, count, variant=PLAIN):
        is_on = variant.settings.get("cache", {}).get("enabled", False)
        is_unique = variant.make_unique is not None
        rate = 100.0 if not is_on else 90.0 if is_unique else 200.0
        return Run(rate, 0, Agreement(10, 10, 0.0))


def test_the_cache_is_compared_with_no_cache_on_unique_and_on_repeated_inputs():
    options = read_options(["--rounds", "2"], ["cache"], ["cache"])
    section = Cache().run(Context(FakeArena(), options, lambda text: None))
    found = {(row["inputs"], row["cache"]): row["x off"] for row in section.rows}

    assert found == {
        ("unique", "off"): 1.0,
        ("unique", "on"): pytest.approx(0.9),
        ("repeated", "off"): 1.0,
        ("repeated", "on"): 2.0,
    }
    assert any("90.0%" in note for note in section.notes)


def test_a_comment_changes_the_bytes_and_not_the_picture():
    file = io.BytesIO()
    Image.new("RGB", (32, 32), (10, 200, 90)).save(file, "JPEG")
    plain = file.getvalue()
    first, second = add_comment(plain, 1), add_comment(plain, 2)

    assert len({plain, first, second}) == 3
    assert (simplejpeg.decode_jpeg(first, "RGB") == simplejpeg.decode_jpeg(plain, "RGB")).all()
