"""Who takes part. A contestant is a name, how it is started and how it is set up; what it does is in its own module."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.settings import Delivery, cores


class Family(enum.StrEnum):
    """What a contestant stands for."""

    LIMIT = "limits"
    """What the cores, or client and broker, can do at all."""
    LOOP = "loops"
    """Programs written by hand for confluent-kafka."""
    PEER = "peers"
    """Libraries that do it for you."""
    HEADRACE = "ours"


@dataclass(frozen=True)
class Contestant:
    """One runner in one set-up."""

    name: str
    family: Family
    module: str
    """Run with `python -m`; empty for Headrace, which is run by its own command."""
    about: str
    is_tuned: bool = True
    is_core: bool = False
    """True: also runs where there is no full field."""
    is_quick: bool = False
    environment: str = ""
    processes: int = 1
    """How many are launched."""
    lanes: int = 1
    """What one of them may divide its work among."""
    threads: int = 1
    """Intra-op threads; 0 leaves torch's default."""
    arguments: tuple[str, ...] = ()
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    overlay: Path | None = None
    """Settings of Headrace that are laid over the benchmark's."""
    is_default: bool = False
    """Headrace at its defaults: no overlay of the workload either."""


_CORES = cores()
DOCUMENTED, ALL_THREADS = False, 0
_MODULES = "benchmarks.contestants."


def _peer(name: str, module: str, about: str, tuning: str, *, environment: str, launches: int = 1) -> list[Contestant]:
    """A peer as documented, and tuned: one-thread processes as many as cores, the expert's decoder and layout."""
    path = _MODULES + module
    return [
        Contestant(name, Family.PEER, path, about, is_tuned=DOCUMENTED, environment=environment, threads=ALL_THREADS),
        Contestant(
            f"{name}-tuned",
            Family.PEER,
            path,
            tuning,
            environment=environment,
            processes=launches,
            lanes=_CORES,
            is_quick=name == "bytewax",
        ),
    ]


LIMITS = (
    Contestant(
        "model-alone", Family.LIMIT, f"{_MODULES}limits", "forward only, one-thread processes as many as cores",
        is_quick=True, processes=_CORES, arguments=("model",),
    ),
    Contestant(
        "decode-and-model", Family.LIMIT, f"{_MODULES}limits", "decode, forward, encode; the same processes",
        is_core=True, is_quick=True, processes=_CORES, arguments=("decode",),
    ),
    Contestant(
        "transport-alone", Family.LIMIT, f"{_MODULES}transport", "the overlapped loop without a model", is_core=True,
    ),
)  # fmt: skip
LOOPS = (
    Contestant(
        "loop", Family.LOOP, f"{_MODULES}loop", "consume, answer, flush, commit; Pillow, torch's default threads",
        is_tuned=DOCUMENTED, threads=ALL_THREADS,
    ),
    Contestant(
        "loop-per-core", Family.LOOP, f"{_MODULES}loop", "the same loop tuned, one-thread processes as many as cores",
        is_core=True, is_quick=True, processes=_CORES,
    ),
    Contestant(
        "overlapped", Family.LOOP, f"{_MODULES}overlapped", "an expert's loop: nothing waits for the broker",
        is_core=True, is_quick=True,
    ),
)  # fmt: skip
PEERS = (
    *_peer(
        "faust", "faust_app", "an agent with stream.take()", "one-thread processes, linger, gathered sends",
        environment="faust", launches=_CORES,
    ),
    *_peer(
        "quix", "quix_app", "sdf.apply() per record", "one-thread processes, a batching sink",
        environment="quix", launches=_CORES,
    ),
    *_peer(
        "bytewax", "bytewax_flow", "key_on, collect, flat_map", "a cluster of one-thread processes, flat_map_batch",
        environment="bytewax", launches=_CORES,
    ),
    *_peer(
        "kafka-python", "kafka_python_loop", "poll, send, flush, commit; with crc32c",
        "one-thread processes, large batches, flush and commit by time", environment="", launches=_CORES,
    ),
    *_peer(
        "mosec", "mosec_bridge", "a bridge, one HTTP request per record, mosec's batching",
        "a bridge, one request per batch, one-thread workers", environment="mosec",
    ),
)  # fmt: skip
HEADRACE = (
    Contestant(
        "headrace", Family.HEADRACE, "", "exactly once, settings of the workload", is_core=True, is_quick=True,
        delivery=Delivery.EXACTLY_ONCE,
    ),
    Contestant(
        "headrace-at-least-once", Family.HEADRACE, "", "at least once, settings of the workload",
    ),
    Contestant(
        "headrace-default", Family.HEADRACE, "", "exactly once, defaults but for the batch size",
        delivery=Delivery.EXACTLY_ONCE, is_default=True,
    ),
    Contestant(
        "headrace-default-at-least-once", Family.HEADRACE, "", "at least once, defaults but for the batch size",
        is_default=True,
    ),
)  # fmt: skip
CONTESTANTS: Mapping[str, Contestant] = {one.name: one for one in (*HEADRACE, *LOOPS, *PEERS, *LIMITS)}


def overlay_contestant(name: str, overlay: Path) -> Contestant:
    """Headrace, exactly once, with one more settings file laid over those of the workload."""
    about = f"exactly once, with {overlay.name}"
    return Contestant(
        name, Family.HEADRACE, "", about, is_core=True, is_quick=True, delivery=Delivery.EXACTLY_ONCE, overlay=overlay
    )


def select_contestants(
    wanted: Sequence[str], extra: Sequence[Contestant], *, core_only: bool, quick: bool
) -> list[Contestant]:
    """Contestants by name or family; all that suit the field when none is named. `extra` ones always take part.

    Raises ValueError for unknown names.
    """
    everyone = [*CONTESTANTS.values(), *extra]
    if not wanted:
        suiting = [one for one in CONTESTANTS.values() if one.is_core or not core_only]
        return [*(one for one in suiting if one.is_quick or not quick), *extra]
    known = {one.name for one in everyone} | set(Family)
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise ValueError(f"no contestant {unknown[0]!r}; there are {', '.join(sorted(known))}")
    return [one for one in everyone if one in extra or one.name in wanted or one.family in wanted]
