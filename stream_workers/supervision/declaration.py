"""What a slot's member wants of its model processes, what of that has failed, and how far the candidate is. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Preparation, Serve
from stream_workers.supervision.residency_plan import Needs

RETRY_SECONDS = 30.0
"""A wanted version that failed for a reason that may pass is tried again after this."""
SHADOW_RETRY_SECONDS = 300.0
"""The same for a shadow: nobody waits for it, and each load takes time of the cores."""


@dataclass(frozen=True, slots=True)
class _Failed:
    reason: str
    epoch: int
    retry_at: float | None
    """None when trying again would change nothing."""

    def is_hopeless(self, now: float) -> bool:
        """Whether it is not tried now."""
        return self.retry_at is None or now < self.retry_at


class Declaration:
    """The last `Serve` and what came of it."""

    def __init__(self) -> None:
        self.last: Serve | None = None
        self.refusal = ""
        """Why the candidate is refused; it stays so under its id."""
        self._failed: dict[str, _Failed] = {}
        self._failed_shadow: _Failed | None = None

    @property
    def wanted(self) -> Sequence[ServedVersion]:
        """The versions that must be able to take batches, the main one first."""
        return self.last.wanted if self.last is not None else ()

    @property
    def candidates(self) -> Sequence[str]:
        """The versions to prepare; none when they are refused."""
        candidate = self.last.candidate if self.last is not None else None
        return candidate.versions if candidate is not None and not self.refusal else ()

    @property
    def reasons(self) -> dict[str, str]:
        """The wanted versions that cannot be loaded, and why."""
        return {name: failed.reason for name, failed in self._failed.items()}

    def take(self, serve: Serve) -> None:
        """Replace what was wanted.

        A failure is forgotten with the wish, when the wish comes with another epoch, and for a new candidate.
        """
        before = self.last.candidate if self.last is not None else None
        if self.last is None or self.last.shadow != serve.shadow:
            self._failed_shadow = None
        self.last = serve
        anew: Sequence[str] = ()
        if serve.candidate is None or before is None or serve.candidate.id != before.id:
            self.refusal = ""
            anew = self.candidates
        epochs = {version.version: version.epoch for version in serve.wanted}
        self._failed = {
            name: failed
            for name, failed in self._failed.items()
            if epochs.get(name) == failed.epoch and name not in anew
        }

    def find(self, name: str) -> ServedVersion | None:
        """Return the wanted version of this name, with its epoch."""
        return next((version for version in self.wanted if version.version == name), None)

    def fail(self, version: ServedVersion, reason: str, now: float, *, permanent: bool) -> None:
        """A wanted version could not be loaded."""
        self._failed[version.version] = _Failed(reason, version.epoch, None if permanent else now + RETRY_SECONDS)

    def fail_shadow(self, reason: str, now: float, *, permanent: bool) -> None:
        """The shadow could not be loaded, or does not stay alive."""
        self._failed_shadow = _Failed(reason, 0, None if permanent else now + SHADOW_RETRY_SECONDS)

    def explain_shadow(self, now: float) -> str:
        """Return why the shadow is not tried now; empty when it is."""
        failed = self._failed_shadow
        return failed.reason if failed is not None and failed.is_hopeless(now) else ""

    def succeed(self, name: str) -> None:
        """It could after all."""
        self._failed.pop(name, None)

    def preparation(self, whole: Collection[str]) -> Preparation | None:
        """How far the candidate is, given the versions all of whose processes are loaded; None without one."""
        candidate = self.last.candidate if self.last is not None else None
        if candidate is None:
            return None
        is_ready = not self.refusal and all(name in whole for name in candidate.versions)
        return Preparation(candidate.id, is_ready, self.refusal)

    def needs(self, active: ServedVersion | None, now: float) -> Needs:
        """What must be loaded at `now`, beside the version that is active."""
        hopeless = {name for name, failed in self._failed.items() if failed.is_hopeless(now)}
        wanted = [version.version for version in self.wanted]
        shadow = self.last.shadow if self.last is not None and not self.explain_shadow(now) else None
        return Needs(wanted, self.candidates, active.version if active is not None else None, hopeless, shadow)
