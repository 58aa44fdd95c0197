"""Which versions a member wants to have loaded, given the timeline and what it has in hand. Pure."""

from collections.abc import Collection

from model_store.timeline import Timeline, TimelineEntry
from stream_workers.batching.work import ServedVersion

LINGER_SECONDS = 3.0
"""A version that records needed so lately is wanted still: while a backlog is read, some poll may bring none of it."""


class WantedVersions:
    """Remembers what records needed lately. Not thread-safe: one thread owns it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._needed: dict[str, tuple[float, ServedVersion]] = {}

    def choose(
        self, timeline: Timeline, in_hand: Collection[ServedVersion], now_ms: int, now: float
    ) -> list[ServedVersion]:
        """Return the wanted versions, each name once: first the main one, which most new records meet.

        Then the others of its decision, those of switches that are armed, and those that records in hand are to meet.
        """
        for version in in_hand:
            if version.version:
                self._needed[version.version] = (now, version)
        self._needed = {
            name: (seen, version) for name, (seen, version) in self._needed.items() if now - seen < LINGER_SECONDS
        }
        wanted: dict[str, ServedVersion] = {}
        for entry in find_live_entries(timeline, now_ms):
            for name in sorted(entry.split, key=lambda name, entry=entry: (-entry.split[name], name)):  # type: ignore[misc]
                wanted.setdefault(name, ServedVersion(self._model, name, entry.epoch))
        for name, (_, version) in sorted(self._needed.items(), key=lambda pair: -pair[1][1].epoch):
            wanted.setdefault(name, version)
        return list(wanted.values())


def has_room_for(
    candidates: Collection[str], wanted: Collection[ServedVersion], timeline: Timeline, now_ms: int
) -> bool:
    """Whether candidates may be loaded beside what is wanted.

    Not while records before the last switch need a version that new ones do not meet: that would be one version more
    than a worker's memory is planned for.
    """
    names = {version.version for version in wanted}
    live = {name for entry in find_live_entries(timeline, now_ms) for name in entry.split}
    return names <= live or names.issuperset(candidates)


def find_live_entries(timeline: Timeline, now_ms: int) -> list[TimelineEntry]:
    """Return the decision that new records meet at `now_ms`, then those armed behind it; empty without a timeline.

    One that another with the same instant follows was called off: it meets no record.
    """
    armed: list[TimelineEntry] = []
    for entry in reversed(timeline.entries):
        if not entry.is_armed(now_ms):
            return [entry, *reversed(armed)]
        if not armed or entry.effective_from_ms < armed[-1].effective_from_ms:
            armed.append(entry)
    return list(reversed(armed))
