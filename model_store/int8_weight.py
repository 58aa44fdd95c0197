"""Weights that make `conv2d` and `linear` run in int8 on the CPU, inside any module that calls them.

The weight itself carries the rule, so a subclass of Conv2d with a forward of its own (padding, say) needs no rewriting
and nothing is traced. The kernels are oneDNN's, the same that torch's compiler emits for int8.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

from schemas.errors import ManifestError

_LEVELS = 255
_WEIGHT_LEVELS = 127
_SMALLEST_SCALE = 1e-30
"""Below it a scale's reciprocal is no finite float32."""


class Quantised:
    """The int8 side of one weight [out, ...]: levels and scales of the weight, and how its inputs are rounded.

    Symmetric per output channel, inputs asymmetric per tensor in uint8. Scales are those of Jacob et al. 2018,
    "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", section 2.
    """

    def __init__(self, weight: torch.Tensor, input_range: tuple[float, float]) -> None:
        largest = weight.abs().flatten(1).amax(1) if weight.numel() else weight.new_zeros(weight.shape[0])
        self.scales = (largest / _WEIGHT_LEVELS).clamp_min(_SMALLEST_SCALE)
        scales = self.scales.view(-1, *[1] * (weight.dim() - 1))
        self.shape = tuple(weight.shape)
        self.levels = (weight / scales).round().clamp(-_WEIGHT_LEVELS, _WEIGHT_LEVELS).to(torch.int8)
        self.zero_points = torch.zeros(weight.shape[0], dtype=torch.int32)
        self.packed: torch.Tensor | None = None
        """The levels as the kernel wants them, made at the first call, which alone knows the convolution's steps."""
        low, high = min(input_range[0], 0.0), max(input_range[1], 0.0)  # zero is padding, so it must be exact
        self.input_scale = max((high - low) / _LEVELS, _SMALLEST_SCALE)
        self.input_zero_point = min(max(round(-low / self.input_scale), 0), _LEVELS)
        self._rounding_shift = torch.tensor([self.input_zero_point + 0.5])
        self.float_records = 0
        """Records that took the float32 path so far, because a number in them was not finite."""

    @property
    def held_bytes(self) -> int:
        """Memory of the levels, one byte each; a packed tensor tells no size of its own."""
        return math.prod(self.shape)

    def keep_packed(self, packed: torch.Tensor) -> torch.Tensor:
        """Keep the levels as the kernel wants them, and in no other form."""
        self.packed, self.levels = packed, self.levels.new_empty(0)
        return packed

    def round_inputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Round finite inputs to uint8 levels. Adding half and cutting off rounds; three passes are the fewest."""
        levels = torch.add(self._rounding_shift, inputs, alpha=1 / self.input_scale)
        return levels.clamp_(0, _LEVELS).to(torch.uint8)


class Int8Weight(torch.Tensor):
    """A float32 weight that brings its int8 side along.

    Outputs have the dtype of the inputs. Inputs beyond the range are clamped to it. Records (first axis) with a NaN or
    an infinity take the float32 path, alone, and are counted.
    """

    quantised: Quantised

    @classmethod
    def of(cls, path: str, weight: torch.Tensor, input_range: tuple[float, float]) -> "Int8Weight":
        """Quantise a weight [out, ...] whose inputs lie in `input_range`. Raises ManifestError naming the layer."""
        if not bool(torch.isfinite(weight).all()):
            raise ManifestError(f"precision_plan.{path}: int8: the layer's weight holds NaN or an infinity")
        plain = weight.detach().float()
        made = plain.as_subclass(cls)
        made.quantised = Quantised(plain, input_range)
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the two kernels in int8; all else sees a plain float32 tensor."""
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - torch documents it for this very method
            kernel = _KERNELS.get(func)
            if kernel is not None and len(args) > 1 and isinstance(args[1], cls):
                return kernel(*args, **kwargs)
            return func(*args, **kwargs)


def count_float_records(module: torch.nn.Module) -> int:
    """Records that took the float32 path of an int8 layer since the module was loaded, summed over its layers."""
    return sum(weight.quantised.float_records for weight in int8_weights(module))


def int8_weights(module: torch.nn.Module) -> Iterator[Int8Weight]:
    """The int8 weights inside a module."""
    return (buffer for buffer in module.buffers() if isinstance(buffer, Int8Weight))


def _conv2d(  # noqa: PLR0913 - torch's own signature
    inputs: torch.Tensor,
    weight: Int8Weight,
    bias: torch.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> torch.Tensor:
    bias = None if bias is None else bias.float()
    window = (_pair(stride), _pair(padding), _pair(dilation), groups)
    own = weight.quantised
    scale, zero_point = own.input_scale, own.input_zero_point

    def quantised(finite: torch.Tensor) -> torch.Tensor:
        packed = own.packed
        if packed is None:
            packed = own.keep_packed(
                torch.ops.onednn.qconv_prepack(own.levels, own.scales, scale, zero_point, *window, list(finite.shape))
            )
        outputs: torch.Tensor = torch.ops.onednn.qconv2d_pointwise(
            own.round_inputs(finite), scale, zero_point, packed, own.scales, own.zero_points, bias, *window,
            1.0, 0, finite.dtype, "none", [], "",
        )  # fmt: skip
        return outputs

    def exact(odd: torch.Tensor) -> torch.Tensor:
        plain = weight.as_subclass(torch.Tensor)
        return functional.conv2d(odd.float(), plain, bias, *window).to(odd.dtype)

    batched = inputs if inputs.dim() == 4 else inputs.unsqueeze(0)
    outputs = _split_finite(batched, weight, quantised, exact)
    return outputs if inputs.dim() == 4 else outputs.squeeze(0)


def _linear(inputs: torch.Tensor, weight: Int8Weight, bias: torch.Tensor | None = None) -> torch.Tensor:
    bias = None if bias is None else bias.float()
    own = weight.quantised
    scale, zero_point = own.input_scale, own.input_zero_point

    def quantised(finite: torch.Tensor) -> torch.Tensor:
        packed = own.packed
        if packed is None:
            packed = own.keep_packed(torch.ops.onednn.qlinear_prepack(own.levels, list(finite.shape)))
        outputs: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            own.round_inputs(finite), scale, zero_point, packed, own.scales, own.zero_points, bias,
            1.0, 0, finite.dtype, "none", [], "",
        )  # fmt: skip
        return outputs

    def exact(odd: torch.Tensor) -> torch.Tensor:
        return functional.linear(odd.float(), weight.as_subclass(torch.Tensor), bias).to(odd.dtype)

    rows = inputs.reshape(-1, inputs.shape[-1])
    return _split_finite(rows, weight, quantised, exact).reshape(*inputs.shape[:-1], weight.shape[0])


Kernel = Callable[[torch.Tensor], torch.Tensor]

_KERNELS: dict[Any, Callable[..., torch.Tensor]] = {functional.conv2d: _conv2d, functional.linear: _linear}


def _split_finite(records: torch.Tensor, weight: Int8Weight, quantised: Kernel, exact: Kernel) -> torch.Tensor:
    """Answer each record; an int8 level cannot say NaN, so what is not finite never becomes one.

    A sum is the cheapest look at every number: it is finite only when all of them are. That a sum of finite numbers may
    overflow costs a second look, nothing more.
    """
    if not records.numel():
        return exact(records)
    if math.isfinite(float(records.sum(dtype=torch.float32))):
        return quantised(records)
    sound = torch.isfinite(records).flatten(1).all(1)
    if bool(sound.all()):
        return quantised(records)
    weight.quantised.float_records += int((~sound).sum())
    # The whole batch again, blanked, so that the other records meet the very same kernel.
    blanked = records.masked_fill(~sound.view(-1, *[1] * (records.dim() - 1)), 0.0)
    outputs = quantised(blanked)
    outputs[~sound] = exact(records[~sound])
    return outputs


def _pair(value: Any) -> list[int]:
    return [int(value)] * 2 if isinstance(value, int) else [int(step) for step in value]
