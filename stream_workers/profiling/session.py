"""One profile from start to end: which versions, which records, every measurement, the choice, the confirmation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model_store.store_opening import open_store
from model_store.version_choice import choose_only_version
from schemas.errors import ConfigurationError
from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.profiling.choice import Choice, Goal
from stream_workers.profiling.confirmation import Comparison, ConfirmationPlan, confirm
from stream_workers.profiling.example_process import read_example
from stream_workers.profiling.measuring import MeasuringPlan, measure_curve
from stream_workers.profiling.model_bench import ModelBench
from stream_workers.profiling.samples import Sample, likest, read_samples
from stream_workers.profiling.service_curve import ServiceCurve
from stream_workers.profiling.setups import SLOTS, Setup, list_setups, list_sizes

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How far and how long to measure."""

    max_batch_size: int
    seconds_per_size: float
    confirm_seconds: float


def find_versions(settings: Settings, asked: Sequence[str]) -> list[str]:
    """Return the versions to profile: those asked for, else that of the settings, else the only one there is.

    Raises ModelStoreError when one is not in the store, ConfigurationError when it is not clear which one is meant.
    """
    store, name = open_store(settings.store), settings.model.name
    wanted = list(dict.fromkeys(asked)) or ([settings.model.version] if settings.model.version else [])
    if not wanted:
        wanted = [choose_only_version(store, name)]
    for version in wanted:
        store.resolve(name, version)
    return wanted


def find_samples(
    settings: Settings, version: str, data: Path | None, environment: Mapping[str, str]
) -> Sequence[Sample]:
    """Return the records to profile with: those in `data`, else the model's own example. Raises ConfigurationError."""
    if data is not None:
        return likest(read_samples(data, settings.limits))
    example = read_example(settings, ServedVersion(settings.model.name, version, 0), environment)
    if example is None:
        raise ConfigurationError(f"the class of {settings.model.name} has no example(): --data must give records")
    return [example]


class ProfileSession:
    """Measures with real model processes. `tell` is told what goes on, in words."""

    def __init__(self, settings: Settings, samples: Sequence[Sample], environment: Mapping[str, str], tell: Tell):
        self._settings = settings
        self._samples = samples
        self._environment = environment
        self._tell = tell

    def measure(self, versions: Sequence[str], goal: Goal, effort: Effort) -> dict[Setup, ServiceCurve]:
        """Measure every setup of every version. Raises what :class:`ModelBench` raises."""
        plan = MeasuringPlan(
            self._sizes(effort.max_batch_size),
            effort.seconds_per_size,
            slots=1,
            longest_service_seconds=goal.p99_seconds,
        )
        curves: dict[Setup, ServiceCurve] = {}
        for setup in list_setups(self._settings, versions):
            self._tell(f"{setup.describe()}: loading")
            with self._bench(replace(setup, slots=max(SLOTS)), plan.sizes[-1]) as bench:
                for slots in SLOTS:
                    tried = replace(setup, slots=slots)
                    told = self._telling(tried)
                    curves[tried] = measure_curve(bench, self._samples, replace(plan, slots=slots), told)
        return curves

    def confirm(self, choice: Choice, curve: ServiceCurve, effort: Effort) -> list[Comparison]:
        """Measure again under the chosen settings, and compare with what was forecast."""
        candidate = choice.candidate
        plan = ConfirmationPlan(choice.at_rate.rate, effort.confirm_seconds, self._settings.batching.max_batch_bytes)
        with self._bench(candidate.setup, candidate.max_batch_size) as bench:
            return confirm(bench, self._samples, candidate, curve, plan)

    def _telling(self, setup: Setup) -> Tell:
        return lambda text: self._tell(f"{setup.describe()}: {text}")

    def _bench(self, setup: Setup, max_batch_size: int) -> ModelBench:
        settings = setup.apply(self._settings, max_batch_size)
        version = ServedVersion(settings.model.name, setup.version, 0)
        return ModelBench(settings, version, self._environment)

    def _sizes(self, largest: int) -> list[int]:
        """Leave out the sizes that would not fit an input slot; a single record always does."""
        longest = max(len(sample.payload) for sample in self._samples)
        fit = self._settings.batching.max_batch_bytes // longest
        return list_sizes(max(1, min(largest, fit)))
