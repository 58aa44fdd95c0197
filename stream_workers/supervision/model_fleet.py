"""The model processes of one slot, by version: those that serve, a candidate beside them, and what is kept warm.

They belong to the supervisor and not to the member, so a member that dies finds them warm when it is back, and one of
them that dies costs no group membership. Versions never share a process (docs/decisions/0019).
"""

import structlog

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Detach, FromModel, Loaded, LoadFailed, Refused, Residents, Serve
from stream_workers.supervision.declaration import Declaration
from stream_workers.supervision.fleet_options import FleetOptions
from stream_workers.supervision.model_instance import InstanceState, ModelInstance, Post, StartsModels
from stream_workers.supervision.residency_plan import plan_residency
from stream_workers.supervision.version_set import VersionSet, VersionSets

FAILED_LOADS = 3
"""Failed loads per instance, none of them a success, after which a first version is given up. The restart policy alone
would never end slow loads: it forgets what is older than a minute."""

_log = structlog.get_logger("supervision")


class ModelFleet:
    """Driver of one slot's model processes. `post` reaches the slot's member; without one it drops the message."""

    def __init__(self, options: FleetOptions, start_model: StartsModels, post: Post) -> None:
        self._options = options
        self._start_model = start_model
        self._post = post
        self._has_member = False
        self._declaration = Declaration()
        self._active: ServedVersion | None = None
        self._sets = VersionSets()
        self._shadow_wait = ""
        self._told: Residents | None = None
        self.instances: dict[int, ModelInstance] = {}
        self.restarts = 0
        """Processes that were started in place of one that ended."""
        self.failure: str | None = None
        """Set when the model processes cannot be kept alive: the worker gives up."""
        self.failure_is_permanent = False
        """True when starting the worker again would change nothing."""

    def count_loaded(self) -> int:
        """Model processes that serve the active version or, before there is one, could serve what is wanted."""
        names = [self._active.version] if self._active else [version.version for version in self._declaration.wanted]
        sets = filter(None, map(self._sets.find_serving, names))
        return sum(len(versions.loaded(self.instances)) for versions in sets)

    # -- what the member asks for --------------------------------------------------------------------------------------

    @property
    def serving_version(self) -> ServedVersion | None:
        """The active version, while a process of it is loaded."""
        return self._active if self._active is not None and self.count_loaded() else None

    @property
    def declared(self) -> Serve | None:
        """What was last asked for."""
        return self._declaration.last

    def declare(self, serve: Serve, now: float) -> None:
        """Bring about what is wanted: load what is missing, promote what is there, let go of what is neither."""
        self._declaration.take(serve)
        self._settle(now)

    def release(self, number: int, now: float) -> None:
        """The member is done with this instance. One of a version that is kept is never released."""
        instance = self.instances.get(number)
        if instance is not None and self._sets.of(instance) is None:
            instance.end(now)

    def kill(self, number: int, code: str) -> None:
        """The member sees no progress in this instance."""
        instance = self.instances.get(number)
        if instance is not None and instance.state is InstanceState.LOADED:
            _log.error("killing model process", instance=number, reason=code)
            instance.kill(code)

    # -- the member itself ---------------------------------------------------------------------------------------------

    def meet_member(self) -> None:
        """A new member is there: hand it everything that is loaded."""
        self._has_member, self._told = True, None
        self._announce()

    def lose_member(self, now: float) -> None:
        """The member is gone: nobody will ever release what is on its way out."""
        self._has_member = False
        for instance in self.instances.values():
            instance.is_attached = False
            if instance.state is InstanceState.LOADED and self._sets.of(instance) is None:
                instance.end(now)

    # -- what happens to instances -------------------------------------------------------------------------------------

    def on_message(self, instance: ModelInstance, message: FromModel, now: float) -> None:
        """A model process has loaded its version, or cannot."""
        if instance.state is not InstanceState.LOADING:
            return
        if isinstance(message, Loaded):
            # It may have taken more, for a moment, than at any look so far.
            excess = self._options.limits.find_excess(instance, now)
            if excess is None:
                self._on_loaded(instance, message, now)
                return
            message = excess
        self._on_load_failed(instance, message, now)

    def on_exit(self, instance: ModelInstance, return_code: int, now: float) -> None:
        """A model process has ended."""
        reason = instance.explain(return_code)
        if instance.is_attached:
            self._post(Detach(instance.number, reason.code, reason.detail), ())
        state, instance.state = instance.state, InstanceState.ENDING
        if state is not InstanceState.ENDING:
            _log.warning("model process ended", instance=instance.number, code=reason.code, detail=reason.detail)
        if state is InstanceState.LOADING:
            failed = LoadFailed("its process ended while loading", reason.detail, permanent=False)
            self._meet_failure(instance, failed, now, hopeless=False)
        elif state is InstanceState.LOADED:
            self._replace(instance, reason.detail, now)
        del self.instances[instance.number]
        instance.discard()
        self._settle(now)

    def tick(self, now: float) -> None:
        """Start what is due, let go of what has been warm for long enough, and end what takes too long or too much."""
        for instance in list(self.instances.values()):
            instance.press(now)
            if instance.state is InstanceState.LOADING:
                excess = self._options.limits.find_excess(instance, now)
                if excess is not None:
                    self._on_load_failed(instance, excess, now)
        self._settle(now)

    def kill_all(self) -> None:
        """Kill every model process; none is started any more. The worker stops."""
        self._sets.clear()
        self._declaration, self._active = Declaration(), None
        for instance in self.instances.values():
            instance.kill(None)

    # -- versions ------------------------------------------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        """Make what is held agree with what is wanted, and say so."""
        self._turn()
        needs = self._declaration.needs(self._active, now)
        for name, versions in self._sets.items():
            if needs.covers(name):
                versions.warm_since = None
        held = [versions.describe(self.instances) for versions in self._sets.values()]
        plan = plan_residency(needs, held, self._options.keep_warm_seconds, now)
        for name in plan.let_go:
            self._let_go(name, now)
        for name in plan.cool:
            self._sets[name].warm_since = now
        for name in plan.load:
            self._load(name, now)
        if plan.load_shadow is not None:
            self._load(plan.load_shadow, now, is_shadow=True)
        self._start_due(now)
        self._shadow_wait = self._declaration.explain_shadow(now) or plan.shadow_wait
        self._announce()

    def _turn(self) -> None:
        """Make the main version the active one: the first as soon as one process has it, a later one when all have."""
        for at, version in enumerate(self._declaration.wanted):
            versions = self._sets.find_serving(version.version)
            is_able = versions is not None and versions.is_whole(self.instances)
            if versions is not None and self._active is None:
                is_able = bool(versions.loaded(self.instances))
            if versions is not None and is_able:
                versions.has_served = True
            is_active = self._active is not None and self._active.version == version.version
            if at == 0 and (is_able or is_active):
                self._active = version

    def _load(self, name: str, now: float, *, is_shadow: bool = False) -> None:
        options = self._options
        version = self._declaration.find(name) or ServedVersion(options.model, name, 0)
        _log.info("loading", version=name, epoch=version.epoch, instances=options.instances, shadow=is_shadow)
        self._sets[name] = VersionSet(version, options.instances, options.max_restarts, now, is_shadow=is_shadow)

    def _let_go(self, name: str, now: float) -> None:
        """What is attached is ended when the member releases it, after its last batch; nobody waits for a shadow's."""
        _log.info("letting go", version=name)
        versions = self._sets.pop(name)
        for number in versions.members:
            instance = self.instances[number]
            if instance.state is InstanceState.LOADING or versions.is_shadow:
                instance.kill(None)
            elif not instance.is_attached and instance.state is InstanceState.LOADED:
                instance.end(now)

    def _start_due(self, now: float) -> None:
        for versions in self._sets.values():
            if not versions.has_begun and any(self._sets.of(one) is None for one in self.instances.values()):
                continue  # a version that was let go for it still has its memory
            for _ in range(versions.take_due(now)):
                try:
                    instance = self._start_model(versions.version, now, is_shadow=versions.is_shadow)
                except OSError as error:
                    _log.error("model process not started", reason=error.strerror)
                    versions.start_at.append(now + 1.0)
                    continue
                self.instances[instance.number] = instance
                versions.members.add(instance.number)

    # -- telling the member --------------------------------------------------------------------------------------------

    def _announce(self) -> None:
        """Say what is loaded, when that is news, and attach what is not yet."""
        if not self._has_member:
            return
        sets = [versions.announce(self.instances) for versions in self._sets.values()]
        preparation = self._declaration.preparation({one.version for one in sets if one.is_whole and not one.is_shadow})
        residents = Residents(self._active, sets, preparation, self._declaration.reasons, self._shadow_wait)
        if residents != self._told:
            self._told = residents
            self._post(residents, ())  # first, so that the member never holds an instance that nothing has named yet
        for versions in self._sets.values():
            for instance in versions.loaded(self.instances):
                if not instance.is_attached:
                    instance.attach(versions.version, self._post)

    # -- successes and failures ----------------------------------------------------------------------------------------

    def _on_loaded(self, instance: ModelInstance, loaded: Loaded, now: float) -> None:
        _log.info("loaded", instance=instance.number, seconds=round(loaded.load_seconds, 2), warmed=loaded.warmed)
        instance.state = InstanceState.LOADED
        versions = self._sets.of(instance)
        if versions is not None:
            versions.failed_loads = 0
            if versions.is_whole(self.instances):
                versions.was_whole = True
                self._declaration.succeed(versions.name)
        self._settle(now)

    def _on_load_failed(self, instance: ModelInstance, failed: LoadFailed, now: float) -> None:
        instance.kill(None)
        versions = self._sets.of(instance)
        if versions is not None:
            versions.failed_loads += 1
            hopeless = failed.permanent or versions.failed_loads >= FAILED_LOADS * self._options.instances
            self._meet_failure(instance, failed, now, hopeless=hopeless)
            self._settle(now)

    def _meet_failure(self, instance: ModelInstance, failed: LoadFailed, now: float, *, hopeless: bool) -> None:
        """Try again where there is nothing else, or where it has loaded before; else do without."""
        versions = self._sets.of(instance)
        if versions is None:
            return
        reason = f"{failed.error_class}: {failed.message}"
        _log.error("load failed", version=versions.name, reason=reason)
        is_all = self._is_all_there_is(versions)
        if versions.was_whole or (is_all and (self._active is not None or not hopeless)):
            self._replace(instance, reason, now)
            return
        if is_all and self._options.pinned:
            self.failure, self.failure_is_permanent = reason, failed.permanent
        self._give_up(versions, reason, now, permanent=failed.permanent)

    def _replace(self, instance: ModelInstance, reason: str, now: float) -> None:
        """Start another one in its place, unless they end again and again."""
        versions = self._sets.of(instance)
        if versions is None:
            return
        versions.members.discard(instance.number)
        wait = versions.policy.wait_before_restart(now, was_useful=instance.was_useful)
        if wait is not None:
            self.restarts += 1
            versions.start_at.append(now + wait)
        elif self._is_all_there_is(versions):
            self.failure = f"model processes end again and again, last: {reason}"
        else:
            self._give_up(versions, f"its processes end again and again, last: {reason}", now, permanent=False)

    def _give_up(self, versions: VersionSet, reason: str, now: float, *, permanent: bool) -> None:
        """Do without this version; what serves goes on untouched."""
        if versions.is_shadow:
            self._declaration.fail_shadow(reason, now, permanent=permanent)
        wanted = self._declaration.find(versions.name)
        if versions.name in self._declaration.candidates:
            self._declaration.refusal = reason
        if wanted is not None:
            self._declaration.fail(wanted, reason, now, permanent=permanent)
            self._post(Refused(wanted, reason), ())
        self._let_go(versions.name, now)

    # -- small parts ---------------------------------------------------------------------------------------------------

    def _is_all_there_is(self, versions: VersionSet) -> bool:
        """True when nothing else could serve: it does already, or nothing does and it is wanted."""
        if self._active is None:
            return not versions.is_shadow and self._declaration.find(versions.name) is not None
        return self._active.version == versions.name
