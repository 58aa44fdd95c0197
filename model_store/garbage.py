"""Which versions may go. The decision is pure; the driver asks who needs a version before it and at the last moment."""

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from model_store.shadow import Shadow
from model_store.timeline import Timeline
from model_store.version_store import VersionStore
from model_store.worker_reports import Candidate, Roster
from schemas.errors import InvalidPointerError, ManifestError, UnsafeFileError, VersionNotFoundError

DEFAULT_KEEP = 3


class VersionsInUse(Protocol):
    """Who may still need a version of a model: timeline entries, candidates, live workers, fixed settings."""

    def __call__(self, model: str) -> Set[str]:
        """Return the names of all versions that somebody names. Raises when that cannot be known: nothing goes then."""


@dataclass(frozen=True)
class DatedVersion:
    """A version and when its manifest says it was made, as ISO 8601 in UTC."""

    version: str
    created_at: str


@dataclass(frozen=True)
class Plan:
    """What goes and what stays, and why. Every version is in exactly one of the four."""

    removed: tuple[str, ...]
    in_use: tuple[str, ...]
    recent: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    """Left alone, since nobody knows how old they are."""


def names_in_use(
    timeline: Timeline | None, candidate: Candidate | None, roster: Roster, shadow: Shadow | None = None
) -> set[str]:
    """Return the versions that decisions, the preparation in progress, a shadow and live workers name.

    Raises InvalidPointerError when a live worker's report cannot be read: what it holds is not known then.
    """
    if roster.unreadable:
        raise InvalidPointerError(f"report of worker {roster.unreadable[0]}: not sound, so what it holds is not known")
    named = {version for entry in (timeline.entries if timeline is not None else ()) for version in entry.split}
    named.update(candidate.versions if candidate is not None else ())
    named.update(() if shadow is None else (shadow.version,))
    for report in roster.reports:
        named.update(report.serving, report.warm, () if report.shadow is None else (report.shadow.version,))
    return named


def plan_removal(versions: Collection[DatedVersion], in_use: Set[str], keep: int) -> Plan:
    """Keep what is in use and, beyond that, the `keep` newest; the rest goes, oldest first."""
    oldest_first = sorted(versions, key=lambda dated: (dated.created_at, dated.version))
    used = tuple(dated.version for dated in oldest_first if dated.version in in_use)
    free = [dated.version for dated in oldest_first if dated.version not in in_use]
    going = max(0, len(free) - max(0, keep))
    return Plan(removed=tuple(free[:going]), in_use=used, recent=tuple(free[going:]))


def plan_for(store: VersionStore, model: str, in_use: Set[str], keep: int) -> Plan:
    """Plan over what the store has. A version that cannot be read is left alone. Raises UnavailableError."""
    dated: list[DatedVersion] = []
    unreadable: list[str] = []
    for _, version in store.list_versions(model):
        try:
            dated.append(DatedVersion(version, store.resolve(model, version).manifest.created_at))
        except VersionNotFoundError:
            continue  # removed by somebody else meanwhile
        except (ManifestError, UnsafeFileError):
            unreadable.append(version)
    plan = plan_removal(dated, in_use, keep)
    return Plan(plan.removed, plan.in_use, plan.recent, tuple(unreadable))


def collect(
    store: VersionStore, model: str, versions: Sequence[str], find_in_use: VersionsInUse, tell: Callable[[str], None]
) -> list[str]:
    """Remove these versions, each unless somebody names it by then. Returns what was removed.

    `tell` hears of each version that stays after all. Raises what `find_in_use` raises: the version at hand stays.
    """
    removed = []
    for version in versions:
        try:
            if store.remove(model, version, lambda: version not in find_in_use(model)):  # noqa: B023 - called at once
                removed.append(version)
            else:
                tell(f"{model} {version}: in use since a moment ago, left alone")
        except VersionNotFoundError:
            tell(f"{model} {version}: gone already")
    return removed
