"""The model processes of one slot: the set that serves, the candidate beside it, and those on their way out.

They belong to the supervisor and not to the member, so a member that dies finds them warm when it is back, and one of
them that dies costs no group membership.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Detach, FromModel, Loaded, LoadFailed, Refused, Serving
from stream_workers.supervision.model_instance import InstanceState, ModelInstance, Post
from stream_workers.supervision.restart_policy import RestartPolicy

FAILED_LOADS = 3
"""Failed loads per instance, none of them a success, after which a first version is given up. The restart policy alone
would never end slow loads: it forgets what is older than a minute."""

_log = structlog.get_logger("supervision")


@dataclass(slots=True)
class _VersionSet:
    """The instances that are to serve one version, and when missing ones are started."""

    version: ServedVersion
    members: set[int] = field(default_factory=set)
    start_at: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How many model processes serve, how long one may load, and how often one may be restarted within a minute.

    `pinned`: the version is fixed by the settings, so one that can never load is the end of the worker.
    """

    instances: int
    load_timeout_seconds: float
    max_restarts: int
    pinned: bool = False


class ModelFleet:
    """Driver of one slot's model processes. `post` reaches the slot's member; without one it drops the message."""

    def __init__(
        self, options: FleetOptions, start_model: Callable[[ServedVersion, float], ModelInstance], post: Post
    ) -> None:
        self._options = options
        self._start_model = start_model
        self._post = post
        self._has_member = False
        self._serving: _VersionSet | None = None
        self._candidate: _VersionSet | None = None
        self.instances: dict[int, ModelInstance] = {}
        self.policy = RestartPolicy(options.max_restarts)
        self._failed_loads = 0
        self.failure: str | None = None
        """Set when the model processes cannot be kept alive: the worker gives up."""
        self.failure_is_permanent = False
        """True when starting the worker again would change nothing."""

    def count_loaded(self) -> int:
        """Model processes that serve or could."""
        members = self._serving.members if self._serving else set()
        return sum(self.instances[number].state is InstanceState.LOADED for number in members)

    # -- what the member asks for --------------------------------------------------------------------------------------

    @property
    def serving_version(self) -> ServedVersion | None:
        """The version that serves, once it has been loaded."""
        return self._serving.version if self._serving is not None and self.count_loaded() else None

    def request(self, version: ServedVersion, now: float) -> None:
        """Serve this version from now on; at once when only the epoch is new, else after a second set is loaded."""
        candidate, serving = self._candidate, self._serving
        if candidate is not None and _same(candidate.version, version):
            candidate.version = version
            return
        self._drop_candidate()
        if serving is not None and _same(serving.version, version):
            serving.version = version
            self._announce()
            return
        _log.info("loading", version=version.version, epoch=version.epoch, instances=self._options.instances)
        self._failed_loads = 0
        self._candidate = _VersionSet(version, start_at=[now] * self._options.instances)
        self._start_due(self._candidate, now)

    def release(self, number: int, now: float) -> None:
        """The member is done with this instance. One that serves is never released."""
        instance = self.instances.get(number)
        if instance is not None and not (self._serving and number in self._serving.members):
            instance.end(now)

    def kill(self, number: int, code: str) -> None:
        """The member sees no progress in this instance."""
        instance = self.instances.get(number)
        if instance is not None and instance.state is InstanceState.LOADED:
            _log.error("killing model process", instance=number, reason=code)
            instance.kill(code)

    # -- the member itself ---------------------------------------------------------------------------------------------

    def meet_member(self) -> None:
        """A new member is there: hand it everything that serves."""
        self._has_member = True
        self._hand_over(self._serving_instances())

    def lose_member(self, now: float) -> None:
        """The member is gone: nobody will ever release what is on its way out."""
        self._has_member = False
        wanted = set().union(*(versions.members for versions in (self._serving, self._candidate) if versions))
        for number, instance in self.instances.items():
            instance.is_attached = False
            if number not in wanted and instance.state is InstanceState.LOADED:
                instance.end(now)

    # -- what happens to instances -------------------------------------------------------------------------------------

    def on_message(self, instance: ModelInstance, message: FromModel, now: float) -> None:
        """A model process has loaded its version, or cannot."""
        if instance.state is not InstanceState.LOADING:
            return
        if isinstance(message, Loaded):
            _log.info("loaded", instance=instance.number, seconds=round(message.load_seconds, 2), warmed=message.warmed)
            instance.state = InstanceState.LOADED
            self._on_loaded(instance, now)
        else:
            self._on_load_failed(instance, message, now)

    def on_exit(self, instance: ModelInstance, return_code: int, now: float) -> None:
        """A model process has ended."""
        del self.instances[instance.number]
        reason = instance.explain(return_code)
        if instance.is_attached:
            self._post(Detach(instance.number, reason.code, reason.detail), ())
        if instance.state is not InstanceState.ENDING:
            _log.warning("model process ended", instance=instance.number, code=reason.code, detail=reason.detail)
            loading = instance.state is InstanceState.LOADING
            self._replace(instance, f"while loading: {reason.detail}" if loading else reason.detail, now)
        instance.discard()

    def tick(self, now: float) -> None:
        """Start what is due, and end what takes too long."""
        for versions in (self._serving, self._candidate):
            if versions is not None:
                self._start_due(versions, now)
        for instance in list(self.instances.values()):
            instance.press(now)
            limit = self._options.load_timeout_seconds
            if instance.state is InstanceState.LOADING and now - instance.started_at > limit:
                failed = LoadFailed("TimeoutError", f"not loaded within {limit:g} s", permanent=False)
                self._on_load_failed(instance, failed, now)

    def end_all(self, now: float) -> None:
        """End every model process: the worker stops."""
        self._serving = self._candidate = None
        for instance in self.instances.values():
            if instance.state is InstanceState.LOADED:
                instance.end(now)
            else:
                instance.kill(None)

    # -- small parts ---------------------------------------------------------------------------------------------------

    def _start_due(self, versions: _VersionSet, now: float) -> None:
        due = [at for at in versions.start_at if at <= now]
        versions.start_at = [at for at in versions.start_at if at > now]
        for _ in due:
            try:
                instance = self._start_model(versions.version, now)
            except OSError as error:
                _log.error("model process not started", reason=error.strerror)
                versions.start_at.append(now + 1.0)
                continue
            self.instances[instance.number] = instance
            versions.members.add(instance.number)

    def _on_loaded(self, instance: ModelInstance, now: float) -> None:
        candidate, self._failed_loads = self._candidate, 0
        if candidate is None or instance.number not in candidate.members:
            self._hand_over([instance])
            return
        everyone = [self.instances[number] for number in candidate.members]
        all_loaded = not candidate.start_at and all(one.state is InstanceState.LOADED for one in everyone)
        # The first model serves as soon as one instance has it; a switch waits for all, to lose no capacity.
        if self._serving is None or all_loaded:
            retired, self._serving, self._candidate = self._serving, candidate, None
            self._hand_over(everyone)
            for number in retired.members if retired else ():
                if self.instances[number].state is InstanceState.LOADING:
                    self.instances[number].kill(None)
                elif not self.instances[number].is_attached:
                    self.instances[number].end(now)

    def _hand_over(self, instances: list[ModelInstance]) -> None:
        if self._has_member and self._serving is not None:
            self._announce()  # first, so that the member never holds an instance that nothing has named yet
            for instance in instances:
                if instance.state is InstanceState.LOADED and not instance.is_attached:
                    instance.attach(self._serving.version, self._post)

    def _announce(self) -> None:
        if self._serving is not None:
            numbers = [instance.number for instance in self._serving_instances()]
            self._post(Serving(self._serving.version, numbers), ())

    def _serving_instances(self) -> list[ModelInstance]:
        members = sorted(self._serving.members) if self._serving else []
        return [self.instances[number] for number in members if self.instances[number].state is InstanceState.LOADED]

    def _on_load_failed(self, instance: ModelInstance, failed: LoadFailed, now: float) -> None:
        instance.kill(None)
        reason = f"{failed.error_class}: {failed.message}"
        _log.error("load failed", version=instance.version.version, reason=reason)
        self._failed_loads += 1
        hopeless = self._failed_loads >= FAILED_LOADS * self._options.instances
        if (failed.permanent or hopeless) and self._serving is None:
            if self._options.pinned:
                self.failure, self.failure_is_permanent = reason, failed.permanent
            self._refuse(reason)
        else:
            self._replace(instance, reason, now)

    def _replace(self, instance: ModelInstance, reason: str, now: float) -> None:
        """Start another one in its place; a candidate beside a version that serves is refused instead."""
        for versions in (self._serving, self._candidate):
            if versions is None or instance.number not in versions.members:
                continue
            versions.members.discard(instance.number)
            if versions is self._candidate and self._serving is not None:
                self._refuse(reason)
                return
            wait = self.policy.wait_before_restart(now, was_useful=instance.was_useful)
            if wait is None:
                self.failure = f"model processes end again and again, last: {reason}"
                return
            versions.start_at.append(now + wait)
            self._start_due(versions, now)

    def _refuse(self, reason: str) -> None:
        if self._candidate is not None:
            self._post(Refused(self._candidate.version, reason), ())
            self._drop_candidate()

    def _drop_candidate(self) -> None:
        candidate, self._candidate = self._candidate, None
        for number in candidate.members if candidate else ():
            if number in self.instances:
                self.instances[number].kill(None)


def _same(one: ServedVersion, other: ServedVersion) -> bool:
    return (one.model, one.version) == (other.model, other.version)
