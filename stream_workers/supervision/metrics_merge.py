"""The Prometheus texts of several members as one: each family once, each sample with its slot. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of the supervisor's own, of a family with a one-line help."""

    name: str
    text: str
    labels: Mapping[str, str]
    value: float
    kind: str = "gauge"


@dataclass(slots=True)
class _Family:
    head: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


def merge_metrics(texts: Mapping[str, str], own: Sequence[Sample] = ()) -> str:
    """Merge texts by slot and add the supervisor's own samples. Help and type are those of the first that has them."""
    families: dict[str, _Family] = {}
    for slot, text in texts.items():
        current = _Family()
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                current = _begin(families, line)
            elif line and not line.startswith("#"):
                current.samples.append(_label(line, slot))
    for sample in own:
        family = families.setdefault(sample.name, _Family())
        if not family.head:
            family.head = [f"# HELP {sample.name} {sample.text}", f"# TYPE {sample.name} {sample.kind}"]
        labels = ",".join(f'{name}="{_escape(value)}"' for name, value in sample.labels.items())
        family.samples.append(
            f"{sample.name}{{{labels}}} {sample.value}" if labels else f"{sample.name} {sample.value}"
        )
    lines = [line for family in families.values() for line in (*family.head, *family.samples)]
    return "\n".join(lines) + "\n"


def _begin(families: dict[str, _Family], line: str) -> _Family:
    _, keyword, name, *_ = line.split(" ", 3)
    family = families.setdefault(name, _Family())
    if not any(line.startswith(f"# {keyword} ") for line in family.head):
        family.head.append(line)
    return family


def _label(line: str, slot: str) -> str:
    """Put the slot first among the labels of a sample line."""
    label = f'slot="{_escape(slot)}"'
    # A brace can only be the start of labels here: no metric name has one, and values come after a blank.
    name_end = min((at for at in (line.find("{"), line.find(" ")) if at >= 0), default=len(line))
    if line[name_end : name_end + 1] != "{":
        return f"{line[:name_end]}{{{label}}}{line[name_end:]}"
    comma = "" if line[name_end + 1 : name_end + 2] == "}" else ","
    return f"{line[: name_end + 1]}{label}{comma}{line[name_end + 1 :]}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
