import json
import math

from benchmarks.report.files import write_report
from benchmarks.report.section import Chart, Section, Skipped
from benchmarks.report.tables import format_value, render_table


def make_section():
    bars = Chart("bars", "bars", "per second", "", {"headrace": [(0.0, 2.0)], "loop": [(0.0, 1.0)]}, reference=3.0)
    lines = Chart("lines", "lines", "load", "ms", {"headrace": [(30.0, 2.0), (90.0, 4.0)]}, is_logarithmic=True)
    rows = [{"contestant": "headrace", "records/s": 1234.5, "of limit": 0.954, "x best peer": math.nan}]
    columns = ("contestant", "records/s", "of limit", "x best peer")
    return Section("small", "rows", columns, rows, ["a note"], [Skipped("faust", "uv is not installed")], [bars, lines])


def test_a_report_is_json_markdown_and_a_picture_per_chart(tmp_path):
    written = write_report(tmp_path, [make_section()], {"cores": 2}, ["about"])

    assert {path.name for path in written} == {"results.json", "results.md", "small.png", "small-2.png"}
    assert all(path.stat().st_size for path in written)


def test_the_json_is_strict_and_keeps_numbers(tmp_path):
    write_report(tmp_path, [make_section()], {"cores": 2}, [])

    found = json.loads((tmp_path / "results.json").read_text(), parse_constant=lambda name: 1 / 0)

    assert found["sections"][0]["rows"][0] == {
        "contestant": "headrace", "records/s": 1234.5, "of limit": 0.954, "x best peer": None,
    }  # fmt: skip


def test_the_markdown_says_who_was_left_out_and_why(tmp_path):
    write_report(tmp_path, [make_section()], {"cores": 2}, [])
    text = (tmp_path / "results.md").read_text()

    assert "| headrace | 1,234 | 95.4% | - |" in text
    assert "Left out: faust: uv is not installed" in text
    assert "small-2.png" in text


def test_a_section_without_rows_is_reported_too(tmp_path):
    empty = Section("cache", "not run", (), skipped=[Skipped("all", "no such setting")])

    write_report(tmp_path, [empty], {}, [])

    assert "no such setting" in (tmp_path / "results.md").read_text()
    assert render_table(empty).row_count == 0


def test_numbers_are_shown_with_the_digits_that_matter():
    assert format_value("records/s", 12_345.6) == "12,346"
    assert format_value("records/s", 45.67) == "45.7"
    assert format_value("x best peer", 12.345) == "12.35"
    assert format_value("of limit", 0.5) == "50.0%"
    assert format_value("rounds", 5) == "5"
    assert format_value("agreeing", None) == "-"
