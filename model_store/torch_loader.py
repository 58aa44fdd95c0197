"""The torch door: weights from safetensors into a module, mapped from the file, never unpickled."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from model_store.host_memory import keep_freed_memory
from model_store.inference_model import InferenceModel, ModelContext
from model_store.loaded_model import LoadedModel
from model_store.output_encoding import NonFinite
from model_store.precision_plan import PrecisionPlan
from model_store.precision_torch import apply_precision
from model_store.registry import resolve_class
from schemas.errors import ConfigurationError, ManifestError
from schemas.manifest import WEIGHTS_FILE, ModelManifest


class TorchRuntime:
    """What :class:`~model_store.loaded_model.Runtime` asks for, on one device."""

    def __init__(self, device: str, channels_last: bool) -> None:
        self._device = torch.device(device)
        self._channels_last = channels_last
        self._copies = _new_stream(self._device) if self._device.type == "cuda" else None

    def inference(self) -> contextlib.AbstractContextManager[Any]:
        """Switch gradients and version counting off."""
        return torch.inference_mode()

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return memory for inputs of that shape, channels last where the module is, page-locked for a CUDA device."""
        ordered = (shape[0], *shape[2:], shape[1]) if self._is_channels_last(len(shape)) else shape
        if self._copies is None:
            rows = np.empty(ordered, dtype)
        else:
            kind = torch.from_numpy(np.empty(0, dtype)).dtype
            rows = torch.empty(ordered, dtype=kind, pin_memory=True).numpy()
        return rows if ordered is shape else np.moveaxis(rows, -1, 1)

    def fill(self, rows: npt.NDArray[Any], items: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> None:
        """Copy items into the rows; what is channels first is turned by torch, which is 2.5 times as fast as numpy."""
        if isinstance(items, np.ndarray):
            rows[...] = items
        elif self._is_channels_last(rows.ndim) and all(i.flags.c_contiguous and i.flags.writeable for i in items):
            torch.stack([torch.from_numpy(item) for item in items], out=torch.from_numpy(rows))
        else:
            np.stack(items, out=rows)

    def to_device(self, inputs: Any) -> Any:
        """Make tensors of arrays, without a copy where that is safe, on the device, channels last where asked.

        Copies to a CUDA device run on a stream of their own beside the forward of another batch, and are finished on
        return, so what was copied may be written again.
        """
        if self._copies is None:
            return self._move(inputs)
        with torch.cuda.stream(self._copies):
            moved = self._move(inputs)
        self._copies.synchronize()
        return moved

    def _is_channels_last(self, dimensions: int) -> bool:
        return self._channels_last and dimensions == 4

    def _move(self, inputs: Any) -> Any:
        if isinstance(inputs, dict):
            return {name: self._move(part) for name, part in inputs.items()}
        if isinstance(inputs, tuple):
            return tuple(self._move(part) for part in inputs)
        if isinstance(inputs, np.ndarray):
            inputs = torch.from_numpy(inputs if inputs.flags.writeable else inputs.copy())
        if not isinstance(inputs, torch.Tensor):
            return inputs
        is_channels_last = self._is_channels_last(inputs.dim())
        if self._copies is None and not is_channels_last:
            return inputs
        layout = torch.channels_last if is_channels_last else torch.preserve_format
        moved = inputs.to(self._device, memory_format=layout, non_blocking=True)
        if self._copies is not None:
            # The forward reads it on another stream: its memory must not go to the next copy before that is done.
            moved.record_stream(torch.cuda.default_stream(self._device))
        return moved

    def to_host(self, outputs: Any) -> Any:
        """Bring tensors to the CPU, inside lists, tuples and dicts too; waits for the device."""
        if isinstance(outputs, torch.Tensor):
            return outputs.cpu()
        if isinstance(outputs, Mapping):
            return {name: self.to_host(part) for name, part in outputs.items()}
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.to_host(part) for part in outputs) if type(outputs) in (list, tuple) else outputs
        return outputs


def load_model(
    source: Path,
    manifest: ModelManifest,
    classes: Mapping[str, str],
    device: str = "cpu",
    threads: int = 1,
    non_finite: NonFinite = "reject",
) -> LoadedModel:
    """Load one verified version; `source` is its directory, or its weights file in the local cache.

    `classes` is `model.classes`; `threads` sets the intra-op threads of this process.
    Raises ManifestError when the class is unknown, or the weights or the precision plan do not fit it exactly,
    ConfigurationError for a device, precision or import path that cannot work. What the user's class raises in `build`
    comes as it is.
    """
    _set_threads(threads)
    if device == "cpu":
        keep_freed_memory()
    _check_device(device)
    model_class = resolve_class(manifest.model_class, classes)
    weights = source / WEIGHTS_FILE if source.is_dir() else source
    options, metadata = dict(manifest.options), _read_metadata(weights)
    model = model_class(ModelContext(manifest.labels, options, device, manifest.name, manifest.version, metadata))
    module = _build(model)
    _assign_weights(module, weights)
    module.eval().requires_grad_(False)
    channels_last = bool(manifest.options.get("channels_last", True)) and any(p.dim() == 4 for p in module.parameters())
    module.to(device)
    if channels_last:
        module.to(memory_format=torch.channels_last)
    apply_precision(module, PrecisionPlan.of(manifest), device)
    return LoadedModel(model, module, TorchRuntime(device, channels_last), non_finite)


def _new_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch does not say


def save_state(state: Mapping[str, Any], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a state dict as safetensors, `metadata` beside it. Tensors that share memory are written apart.

    Raises ManifestError.
    """
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}
    try:
        save_file(tensors, path, dict(metadata) if metadata else None)
    except (SafetensorError, ValueError) as error:
        raise ManifestError(f"the state cannot be written as safetensors: {error}") from error


def _set_threads(threads: int) -> None:
    torch.set_num_threads(threads)
    if torch.get_num_interop_threads() != 1:
        # Refused once parallel work has begun, which is harmless: one model runs one operation at a time.
        with contextlib.suppress(RuntimeError):
            torch.set_num_interop_threads(1)


def _check_device(device: str) -> None:
    if device.startswith("cuda"):
        number = int(device.partition(":")[2] or 0)
        if not torch.cuda.is_available() or number >= torch.cuda.device_count():
            raise ConfigurationError(f"model.device {device}: this host has {torch.cuda.device_count()} CUDA devices")


def _build(model: InferenceModel) -> torch.nn.Module:
    module = model.build()
    if not isinstance(module, torch.nn.Module):
        raise ManifestError(f"{type(model).__name__}.build() returned {type(module).__name__}, not a torch.nn.Module")
    return module


def check_state(state: Mapping[str, Any], model: InferenceModel) -> None:
    """Check that a state dict is one for the module that a model class builds. Raises ManifestError."""
    expected = _build(model).state_dict()
    _check_keys(expected.keys(), set(state))
    _check_shapes(expected, state)


def _read_metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise ManifestError(f"{path.name} cannot be read as safetensors: {error}") from error


def _assign_weights(module: torch.nn.Module, path: Path) -> None:
    """Give the module the file's tensors: same keys, shapes and dtypes, or ManifestError naming the first misfit."""
    expected = module.state_dict()
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            found = set(file.keys())
            _check_keys(expected.keys(), found)
            state = {name: file.get_tensor(name) for name in expected}
    except (SafetensorError, OSError) as error:
        raise ManifestError(f"{path.name} cannot be read as safetensors: {error}") from error
    _check_shapes(expected, state)
    module.load_state_dict(state, strict=True, assign=True)


def _check_shapes(expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    for name, tensor in expected.items():
        given = found[name]
        if given.shape != tensor.shape or given.dtype != tensor.dtype:
            raise ManifestError(
                f"weights key {name!r}: the file has {given.dtype} {tuple(given.shape)},"
                f" the model class needs {tensor.dtype} {tuple(tensor.shape)}"
            )


def _check_keys(expected: Any, found: set[str]) -> None:
    for name in expected:
        if name not in found:
            raise ManifestError(f"weights key {name!r} is missing from the file")
    for name in sorted(found - set(expected)):
        raise ManifestError(f"weights key {name!r} is in the file but not in the model class")
