"""The files that a run leaves behind."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.report.charts import draw
from benchmarks.report.section import Section
from benchmarks.report.tables import chart_name, render_markdown


def write_report(
    folder: Path, sections: Sequence[Section], machine: Mapping[str, Any], about: Sequence[str]
) -> list[Path]:
    """Write results.json, results.md and a PNG per chart; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {"machine": dict(machine), "about": list(about), "sections": [asdict(section) for section in sections]}
    written = [folder / "results.json", folder / "results.md"]
    written[0].write_text(json.dumps(_without_nan(found), indent=2) + "\n", encoding="utf-8")
    written[1].write_text(render_markdown(sections, machine, about), encoding="utf-8")
    for section in sections:
        for number, chart in enumerate(section.charts):
            if chart.series:
                path = folder / chart_name(section, number)
                draw(chart, path)
                written.append(path)
    return written


def _without_nan(value: Any) -> Any:
    """JSON knows no NaN: null instead."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return value
