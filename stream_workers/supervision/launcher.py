"""Starts members and model processes from the settings: modules, environments and orders."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from model_store.size_buckets import plan_buckets
from schemas.configuration import dump_settings
from schemas.settings import ENV_PREFIX, ModelSettings, Settings, urgent_slots
from stream_workers.batching.work import ServedVersion
from stream_workers.links.input_ring import create_ring, slot_bytes_for
from stream_workers.links.messages import (
    FromMember,
    FromModel,
    Hello,
    LoadOrder,
    Serve,
    from_member_decoder,
    from_model_decoder,
)
from stream_workers.local_folders import model_cache_folder
from stream_workers.supervision.child_process import ChildProcess
from stream_workers.supervision.model_instance import ModelInstance

MEMBER_MODULE = "stream_workers.member"
MODEL_MODULE = "stream_workers.pipeline.model_process"


class FleetState(Protocol):
    """What a member is told of its models; see :class:`stream_workers.supervision.model_fleet.ModelFleet`."""

    @property
    def serving_version(self) -> ServedVersion | None:
        """The active version, while a process of it is loaded."""

    @property
    def declared(self) -> Serve | None:
        """What was last asked for."""


class Launcher:
    """`environment` is what children inherit; `member_module` is another one in tests."""

    def __init__(self, settings: Settings, environment: Mapping[str, str], member_module: str = MEMBER_MODULE) -> None:
        self._settings = settings
        self._environment = without_settings(environment)
        self._member_module = member_module
        self._next_instance = 0
        self._spare: ChildProcess[FromMember] | None = None
        self._store_root = settings.store.location
        self._cache_dir = str(model_cache_folder(settings).absolute())
        self._limits = settings.limits.model_dump_json().encode()

    def start_member(self, slot: str, slot_number: int, fleet: FleetState) -> ChildProcess[FromMember]:
        """Give a slot to the spare or to a new process, and tell it who it is and what its model processes do.

        Secrets travel over its channel, not in arguments or environment.
        """
        if self._spare is not None and self._spare.poll() is not None:
            self.end_spare()
        child, self._spare = self._spare or self._start_nameless(), None
        settings = dump_settings(self._settings)
        child.channel.send(Hello(slot, slot_number, settings, fleet.serving_version, fleet.declared))
        return child

    def keep_spare(self) -> None:
        """Have a member ready that has done everything but take a slot: most of a restart is the loading of code."""
        if self._spare is not None and self._spare.poll() is None:
            return
        self.end_spare()
        with contextlib.suppress(OSError):  # a restart is slower then, and the next turn tries again
            self._spare = self._start_nameless()

    def end_spare(self) -> None:
        """End the spare and wait for it."""
        if self._spare is not None:
            self._spare.reap()
            self._spare = None

    def _start_nameless(self) -> ChildProcess[FromMember]:
        return ChildProcess.start(self._member_module, from_member_decoder, self._environment)

    def start_model(self, version: ServedVersion, now: float, *, is_shadow: bool = False) -> ModelInstance:
        """Start a model process and order the version."""
        model, slots = self._settings.model, self._settings.batching.slots + urgent_slots(self._settings)
        slot_bytes = slot_bytes_for(self._settings)
        ring = create_ring(slots, slot_bytes)
        try:
            variables = _thread_variables(model.threads) | (
                _compiler_variables(self._cache_dir) if model.compile else {}
            )
            child: ChildProcess[FromModel] = ChildProcess.start(
                MODEL_MODULE, from_model_decoder, {**self._environment, **variables}
            )
        except OSError:
            os.close(ring)
            raise
        order = LoadOrder(
            version=version,
            store_root=self._store_root,
            cache_dir=self._cache_dir,
            cache_bytes=self._settings.store.cache_bytes,
            classes=model.classes,
            device=model.device,
            threads=model.threads,
            non_finite=model.non_finite_outputs,
            limits=self._limits,
            max_batch_size=self._settings.batching.max_batch_size,
            slots=slots,
            slot_bytes=slot_bytes,
            size_buckets=list(_plan_sizes(self._settings)),
            compile=model.compile,
            decode_threads=_decode_threads(model),
            require_signature=self._settings.store.require_signature,
            trusted_keys=self._settings.store.trusted_keys,
            is_shadow=is_shadow,
        )
        child.channel.send(order, [os.dup(ring)])
        self._next_instance += 1
        return ModelInstance(self._next_instance, version, child, ring, order, now)


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a child may inherit. Settings reach it over its channel: variables would show secrets to a model."""
    return {name: value for name, value in environment.items() if not name.upper().startswith(ENV_PREFIX)}


def _plan_sizes(settings: Settings) -> tuple[int, ...]:
    needed = settings.model.compile or settings.model.device != "cpu"
    return plan_buckets(settings.batching.size_buckets, settings.batching.max_batch_size, needed=needed)


def _decode_threads(model: ModelSettings) -> int:
    """On the CPU a thread beside the model only takes the time that the model needs; a GPU leaves the CPU idle."""
    return model.decode_threads if model.decode_threads is not None else 0 if model.device == "cpu" else 2


def _compiler_variables(cache_dir: str) -> dict[str, str]:
    """Keep compiled code where others cannot write, and no pool of compiler processes that outlives the model's."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(Path(cache_dir) / "compiled"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def _thread_variables(threads: int) -> dict[str, str]:
    """Limit every thread pool that a model may bring; they are read when the libraries are loaded, so set before.

    Passive waiting: by default a pool's idle threads spin for milliseconds after each operation, on cores that the
    member and the other replicas need.
    """
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**dict.fromkeys(pools, str(threads)), "OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
