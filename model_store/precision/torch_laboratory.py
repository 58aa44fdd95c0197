"""The laboratory's torch side: every plan is tried on a copy of the loaded float32 network."""

import copy
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from model_store.loaded_model import LoadedModel
from model_store.precision.agreement import Outputs
from model_store.precision.calibration import MAX_KEPT, InputStatistics
from model_store.precision.laboratory import Answers
from model_store.precision.samples import Batch
from model_store.precision_plan import PrecisionPlan
from model_store.precision_torch import apply_precision, count_weight_bytes, find_quantisable
from model_store.torch_loader import TorchRuntime
from schemas.errors import ManifestError, scrub

_MIN_TURN_SECONDS = 0.1
"""One turn of a race repeats the batch for at least so long: below it the clock's own step would show."""


class TorchLaboratory:
    """:class:`~model_store.precision.laboratory.Laboratory` for one loaded float32 version."""

    def __init__(self, loaded: LoadedModel, device: str = "cpu") -> None:
        self._model = loaded.model
        self._module: torch.nn.Module = loaded.module
        self._device = device
        self._runtime = TorchRuntime(device, any(map(_is_channels_last, self._module.parameters())))
        # On the CPU one thread computes, and its own clock does not run while a neighbour has the core.
        self._clock: Callable[[], float] = time.thread_time if device == "cpu" else _synchronised_clock

    def list_quantisable(self) -> list[str]:
        """The layers that int8 kernels exist for."""
        return find_quantisable(self._module)

    def is_classifier(self, batch: Batch) -> bool:
        """Whether the raw output is one tensor [records, classes] with at least two classes."""
        outputs = self._run(self._module, batch)
        return isinstance(outputs, torch.Tensor) and outputs.dim() == 2 and outputs.shape[1] > 1

    def observe(self, batches: Sequence[Batch]) -> dict[str, InputStatistics]:
        """What each quantisable layer saw on its input, in float32. A layer that was never called is not named."""
        seen: dict[str, InputStatistics] = {}
        share = max(1, MAX_KEPT // len(batches))

        def watch(path: str) -> Any:
            def look(_: torch.nn.Module, args: Any) -> None:
                seen.setdefault(path, InputStatistics()).add(args[0].detach().float().cpu().numpy(), share)

            return look

        hooks = [
            self._module.get_submodule(path).register_forward_pre_hook(watch(path)) for path in self.list_quantisable()
        ]
        try:
            for batch in batches:
                self._run(self._module, batch)
        finally:
            for hook in hooks:
                hook.remove()
        return seen

    def answer(self, plan: PrecisionPlan, batches: Sequence[Batch], timed_units: Sequence[str] = ()) -> Answers:
        """Run all batches under a plan.

        Raises as `apply_precision`, and ManifestError when the network cannot run that way.
        """
        module = self._planned(plan)
        durations = {unit: self._time_calls(module.get_submodule(unit)) for unit in timed_units}
        outputs = [_to_rows(self._run(module, batch), batch.records) for batch in batches]
        medians = {unit: statistics.median(calls) for unit, calls in durations.items() if calls}
        return Answers(outputs, medians, count_weight_bytes(module))

    def race(self, plans: Sequence[PrecisionPlan], batch: Batch, rounds: int) -> list[list[float]]:
        """Seconds of one run of the batch, by plan and round, all plans in turn in every round."""
        modules = [self._planned(plan) for plan in plans]
        slowest = max(self._seconds(module, batch, 1) for module in modules for _ in range(2))  # the first warms up
        repeats = max(1, round(_MIN_TURN_SECONDS / max(slowest, 1e-6)))
        seconds: list[list[float]] = [[] for _ in plans]
        for number in range(rounds):
            # Each round begins with another plan, so that none is always the one after a pause.
            for index in (*range(number % len(plans), len(plans)), *range(number % len(plans))):
                seconds[index].append(self._seconds(modules[index], batch, repeats) / repeats)
        return seconds

    def _planned(self, plan: PrecisionPlan) -> torch.nn.Module:
        module = copy.deepcopy(self._module)
        apply_precision(module, plan, self._device)
        return module

    def _run(self, module: torch.nn.Module, batch: Batch) -> Any:
        with self._runtime.inference():
            try:
                return self._model.forward(module, self._runtime.to_device(batch.inputs))
            except (RuntimeError, TypeError, ValueError) as error:
                raise ManifestError(f"the network cannot run: {scrub(str(error), limit=300)}") from error

    def _seconds(self, module: torch.nn.Module, batch: Batch, repeats: int) -> float:
        started = self._clock()
        for _ in range(repeats):
            self._run(module, batch)
        return self._clock() - started

    def _time_calls(self, module: torch.nn.Module) -> list[float]:
        """Collect the seconds of each call of a module, casts at its borders included."""
        calls: list[float] = []
        starts: list[float] = []
        module.register_forward_pre_hook(lambda *_: starts.append(self._clock()), prepend=True)
        module.register_forward_hook(lambda *_: calls.append(self._clock() - starts.pop()))
        return calls


def _is_channels_last(parameter: torch.Tensor) -> bool:
    return parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last)


def _synchronised_clock() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def _to_rows(outputs: Any, records: int) -> Outputs:
    """All floating-point outputs of a batch as one array [records, numbers]; others have nothing to compare."""
    parts = [part.float().cpu().reshape(records, -1) for part in _tensors(outputs) if _has_rows(part, records)]
    if not parts:
        raise ManifestError("the network's output holds no floating-point tensor whose first axis is the records")
    rows: Outputs = torch.cat(parts, dim=1).numpy()
    return rows


def _has_rows(part: torch.Tensor, records: int) -> bool:
    return part.is_floating_point() and part.dim() > 0 and part.shape[0] == records


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
