"""Applying a precision plan to a module with its weights: casts at the borders, int8 inside single layers."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import torch

from model_store.int8_weight import Int8Weight, int8_weights
from model_store.precision_plan import PrecisionPlan, int8_layers
from schemas.errors import ConfigurationError, ManifestError
from schemas.precision import REDUCED_PRECISIONS, LayerPrecision

DTYPES: Mapping[LayerPrecision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "bf16": ("avx512_bf16", "amx_bf16"),
    "fp16": ("avx512_fp16", "amx_fp16"),
    # Without these, sums of products saturate at 16 bits and the answers are wrong, not only slow.
    "int8": ("avx512_vnni", "avx_vnni", "amx_int8"),
}


def apply_precision(module: torch.nn.Module, plan: PrecisionPlan, device: str = "cpu") -> None:
    """Make a float32 module on its device run as the plan says, in place. Inputs and outputs stay float32.

    Raises ManifestError for a path that the network does not have, an int8 layer without a range and a weight that the
    precision cannot hold; ConfigurationError for a precision that this host cannot run.
    """
    modules = dict(module.named_modules())
    plan.check_layers(modules.keys())
    if plan.changes_nothing:
        return
    check_host(plan.used(), device)
    layers = int8_layers(plan, find_quantisable(module))
    # From the float32 weights: rounding to bf16 first would cost accuracy for nothing.
    weights = {path: Int8Weight.of(path, modules[path].weight, plan.ranges[path]) for path in layers}
    _cast(modules, plan, kept={f"{path}.{name}" for path in layers for name in ("weight", "bias")})
    for path, weight in weights.items():
        del modules[path].weight
        modules[path].register_buffer("weight", weight, persistent=False)
    _set_borders(modules, plan)


def find_quantisable(module: torch.nn.Module) -> list[str]:
    """The paths of the layers that can run in int8, in the order in which the module names them."""
    return [path for path, child in module.named_modules() if path and _is_quantisable(child)]


def count_weight_bytes(module: torch.nn.Module) -> int:
    """Bytes of all parameters and buffers; an int8 layer holds its levels beside the float32 weight."""
    tensors = {id(tensor): tensor for tensor in [*module.parameters(), *module.buffers()]}
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    return held + sum(weight.quantised.held_bytes for weight in int8_weights(module))


def check_host(precisions: Sequence[LayerPrecision], device: str, found: Mapping[str, Any] | None = None) -> None:
    """Raises ConfigurationError naming a precision that this host cannot run. `found` are its CPU's capabilities."""
    for precision in precisions:
        if device.startswith("cuda"):
            _check_cuda(precision)
        elif precision in _NEEDED:
            capabilities = torch.cpu.get_capabilities() if found is None else found
            if not any(capabilities.get(name) for name in _NEEDED[precision]):
                names = " or ".join(_NEEDED[precision])
                raise ConfigurationError(f"precision {precision}: this CPU has no {names}; serve a version without it")


def runnable_precisions(device: str) -> list[LayerPrecision]:
    """The precisions other than fp32 that this host can run, sorted by name."""
    return [precision for precision in REDUCED_PRECISIONS if _can_run(precision, device)]


def _can_run(precision: LayerPrecision, device: str) -> bool:
    try:
        check_host([precision], device)
    except ConfigurationError:
        return False
    return True


def _check_cuda(precision: LayerPrecision) -> None:
    if precision == "int8":
        raise ConfigurationError("precision int8 runs on model.device cpu only; on CUDA take bf16 or fp16")
    if precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise ConfigurationError("precision bf16: this CUDA device has no bf16; serve a version without it")


def _is_quantisable(child: torch.nn.Module) -> bool:
    if isinstance(child, torch.nn.Conv2d):
        return child.padding_mode == "zeros" and not isinstance(child.padding, str)
    # The output projection of an attention is a subclass that its parent uses without calling it.
    return type(child) is torch.nn.Linear


def _cast(modules: Mapping[str, torch.nn.Module], plan: PrecisionPlan, kept: set[str]) -> None:
    """Cast the floating-point tensors that each module itself owns."""
    owners: dict[int, tuple[str, torch.dtype]] = {}
    for path, child in modules.items():
        dtype = DTYPES[plan.float_precision(path)]
        for name, tensor in [*child.named_parameters(recurse=False), *child.named_buffers(recurse=False)]:
            full = f"{path}.{name}" if path else name
            if full in kept or not tensor.is_floating_point():
                continue
            first, chosen = owners.setdefault(id(tensor), (full, dtype))
            if chosen != dtype:
                raise ManifestError(f"precision_plan.{path}: {dtype}: {full!r} is {first!r} too, which is in {chosen}")
            cast = tensor.detach().to(dtype)
            if not bool(torch.isfinite(cast).all()) and bool(torch.isfinite(tensor).all()):
                raise ManifestError(f"precision_plan.{path or '(base)'}: {dtype}: tensor {full!r} does not fit into it")
            tensor.data = cast


def _set_borders(modules: Mapping[str, torch.nn.Module], plan: PrecisionPlan) -> None:
    """Cast what enters and leaves each module whose precision is not that around it; the whole gets float32 alone."""
    for path, child in modules.items():
        inside = plan.float_precision(path)
        outside: LayerPrecision = plan.float_precision(path.rpartition(".")[0]) if path else "fp32"
        if inside != outside:
            child.register_forward_pre_hook(_entry(DTYPES[inside]), with_kwargs=True)
            child.register_forward_hook(_exit(DTYPES[outside]))


def _entry(dtype: torch.dtype) -> Any:
    def cast_inputs(_: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        return cast_floats(args, dtype), cast_floats(kwargs, dtype)

    return cast_inputs


def _exit(dtype: torch.dtype) -> Any:
    def cast_outputs(_: torch.nn.Module, args: Any, outputs: Any) -> Any:  # noqa: ARG001 - torch's signature
        return cast_floats(outputs, dtype)

    return cast_outputs


def cast_floats(value: Any, dtype: torch.dtype) -> Any:
    """Cast the floating-point tensors in lists, tuples and dicts, whose types are kept; all else stays."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        # A copy keeps a subclass, such as a model's own output type, with its attributes.
        changed = copy(value)
        for name, part in value.items():
            changed[name] = cast_floats(part, dtype)
        return changed
    if isinstance(value, list | tuple):
        parts = [cast_floats(part, dtype) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
