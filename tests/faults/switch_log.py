"""When a member acted on each decision, from its log. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

ADOPTED, MET = "timeline adopted", "switch met"


@dataclass(frozen=True)
class Meeting:
    """One member and one decision; times are epoch seconds, 0 when it did not come to that."""

    adopted_at: float = 0.0
    met_at: float = 0.0
    """When the first batch under it was given to a model process."""
    stalled_ms: float = 0.0


def read_meetings(lines: Iterable[str]) -> dict[int, Meeting]:
    """Return, by epoch, how one member met each decision. Of several members after one another the last counts."""
    adopted: dict[int, float] = {}
    found: dict[int, Meeting] = {}
    for line in lines:
        if ADOPTED not in line and MET not in line:
            continue
        said = json.loads(line)
        at = datetime.fromisoformat(said["timestamp"]).timestamp()
        if said["event"] == ADOPTED:
            adopted[said["epoch"]] = at
            found[said["epoch"]] = Meeting(at)
        elif said["event"] == MET:
            epoch = said["epoch"]
            found[epoch] = Meeting(adopted.get(epoch, 0.0), at, said["stalled_ms"])
    return found
