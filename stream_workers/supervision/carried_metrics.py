"""A slot's metrics over the lives of its members: counters go on where they were, gauges end with their member. Pure.

A member counts from zero. Its successor's counters are shown with what its predecessors had counted when they were
last heard, so that a killed member makes no counter of its slot step back. What it counted after that is lost.
"""

_COUNTS = ("counter", "histogram")


class CarriedMetrics:
    """The Prometheus text of one slot."""

    def __init__(self) -> None:
        self._present = ""
        self._past: dict[str, float] = {}
        self._past_heads: dict[str, list[str]] = {}

    def hear(self, text: str) -> None:
        """Take in what the present member says of itself."""
        self._present = text

    def end(self) -> None:
        """The member has ended: keep its counts, forget the rest."""
        heads, counts = _read(self._present)
        for sample, value in counts.items():
            self._past[sample] = self._past.get(sample, 0.0) + value
        self._past_heads |= heads
        self._present = ""

    def text(self) -> str:
        """Return the metrics of the slot: those of the present member, with what came before it."""
        if not self._past:
            return self._present
        lines, seen = [], set()
        for line in self._present.splitlines():
            sample, _, value = line.rpartition(" ")
            if not line.startswith("#") and sample in self._past:
                seen.add(sample)
                lines.append(f"{sample} {self._past[sample] + float(value)}")
            else:
                lines.append(line)
        missing = [sample for sample in self._past if sample not in seen]
        return "\n".join([*lines, *self._history(missing)]) + "\n"

    def _history(self, samples: list[str]) -> list[str]:
        """The counts of earlier members that the present one does not have, under their heads."""
        lines = []
        for family, head_lines in self._past_heads.items():
            mine = [sample for sample in samples if _family_of(sample) == family]
            if mine:
                lines += [*head_lines, *(f"{sample} {self._past[sample]}" for sample in mine)]
        return lines


def _read(text: str) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return the heads of all counting families by name, and their samples."""
    heads: dict[str, list[str]] = {}
    counts: dict[str, float] = {}
    pending: list[str] = []
    counting = False
    for line in text.splitlines():
        if line.startswith("# HELP "):
            pending = [line]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            counting = kind in _COUNTS
            if counting:
                heads[_family_of(name)] = [*pending, line]
        elif counting and line:
            sample, _, value = line.rpartition(" ")
            counts[sample] = float(value)
    return heads, counts


def _family_of(sample: str) -> str:
    """The name in a sample's TYPE line: a counter's is that of the sample, a histogram's lacks the suffix."""
    name = sample.partition("{")[0]
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
