import copy
from typing import Any

import numpy as np
import pytest
import torch

from model_store.int8_weight import Int8Weight, Quantised, count_float_records
from model_store.precision_plan import PrecisionPlan
from model_store.precision_torch import apply_precision, cast_floats, check_host, find_quantisable, runnable_precisions
from schemas.errors import ConfigurationError, ManifestError

EVERY_CPU = {"avx512_bf16": True, "avx512_fp16": True, "avx512_vnni": True}


def on_cpus_with(precision: str) -> Any:
    return pytest.mark.skipif(precision not in runnable_precisions("cpu"), reason=f"this CPU has no {precision}")


class PaddedConv(torch.nn.Conv2d):
    """A convolution with a forward of its own, as networks ported from elsewhere have."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(inputs, (0, 1, 0, 1))
        return torch.nn.functional.conv2d(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = PaddedConv(3, 8, 3, stride=2)
        self.block = torch.nn.Sequential(
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
        )
        self.head = torch.nn.Linear(8, 5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        features = self.stem(inputs)
        return self.head((features + self.block(features)).mean((2, 3)))


RANGES = {"stem": (-4.5, 4.5), "block.0": (-4.0, 4.0), "head": (-3.0, 3.0)}


def make_net() -> torch.nn.Module:
    torch.manual_seed(0)
    return Net().eval().requires_grad_(False)


def pictures(count: int = 4) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((count, 3, 12, 12), np.float32))


def planned(base: Any, layers: Any = None, ranges: Any = None) -> PrecisionPlan:
    return PrecisionPlan(base, layers or {}, RANGES if ranges is None else ranges)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize(
    ("plan", "limit"),
    [
        pytest.param(planned("bf16"), 0.02, marks=on_cpus_with("bf16")),
        pytest.param(planned("fp16"), 0.002, marks=on_cpus_with("fp16")),
        pytest.param(planned("int8"), 0.03, marks=on_cpus_with("int8")),
        pytest.param(planned("mixed", {"block": "bf16"}), 0.02, marks=on_cpus_with("bf16")),
        pytest.param(planned("bf16", {"stem": "fp32", "head": "fp32"}), 0.02, marks=on_cpus_with("bf16")),
        pytest.param(planned("bf16", {"block": "int8"}), 0.03, marks=[on_cpus_with("bf16"), on_cpus_with("int8")]),
        pytest.param(planned("int8", {"head": "fp32"}), 0.03, marks=on_cpus_with("int8")),
    ],
)
def test_a_planned_network_answers_nearly_the_same_in_float32(plan: PrecisionPlan, limit: float) -> None:
    net = make_net()
    expected = net(pictures())

    apply_precision(net, plan)
    found = net(pictures())

    assert found.dtype == torch.float32
    assert 0 < relative_error(found, expected) < limit


def test_a_version_of_fp32_is_left_as_it_is() -> None:
    net = make_net()
    expected = net(pictures())

    apply_precision(net, PrecisionPlan())

    assert torch.equal(net(pictures()), expected)


@on_cpus_with("bf16")
def test_a_spared_layer_keeps_its_weights_and_its_neighbours_keep_theirs() -> None:
    net = make_net()

    apply_precision(net, planned("bf16", {"block": "fp32"}))

    assert net.block[0].weight.dtype == net.block[1].running_mean.dtype == torch.float32
    assert net.stem.weight.dtype == net.head.weight.dtype == torch.bfloat16


@on_cpus_with("int8")
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_record_that_is_not_finite_takes_the_float_path_alone_and_is_counted(bad: float) -> None:
    net, inputs = make_net(), pictures()
    exact = copy.deepcopy(net)
    apply_precision(net, planned("mixed", {"stem": "int8"}))
    before = net(inputs)
    inputs[2, 0, 3, 3] = bad

    after = net(inputs)

    others = [0, 1, 3]
    assert torch.equal(after[others], before[others])
    assert torch.equal(torch.isnan(after[2]), torch.isnan(exact(inputs)[2]))
    assert count_float_records(net) == 1


@on_cpus_with("int8")
@pytest.mark.parametrize("inputs", [torch.zeros(2, 3, 6, 6), torch.full((2, 3, 6, 6), 0.25)])
@pytest.mark.parametrize("weight_factor", [0.0, 1.0])
def test_constant_inputs_and_weights_give_no_nan(inputs: torch.Tensor, weight_factor: float) -> None:
    layer = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).requires_grad_(False)
    layer[0].weight.mul_(weight_factor)
    expected = layer(inputs)

    apply_precision(layer, planned("int8", ranges={"0": (float(inputs.min()), float(inputs.max()))}))

    torch.testing.assert_close(layer(inputs), expected, rtol=0.02, atol=0.02)


@on_cpus_with("int8")
def test_inputs_whose_sum_overflows_are_still_quantised() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3)).requires_grad_(False)
    inputs = torch.full((2, 4), 3e38)
    apply_precision(layer, planned("int8", ranges={"0": (-1.0, 1.0)}))

    answers = layer(inputs)

    assert torch.equal(answers, layer(torch.ones(2, 4)))
    assert count_float_records(layer) == 0


@on_cpus_with("int8")
def test_an_empty_batch_and_a_single_picture_without_a_batch_axis_run() -> None:
    net = make_net()
    apply_precision(net, planned("int8"))

    assert net(pictures(0)).shape == (0, 5)
    assert net.stem(pictures()[0]).shape == net.stem(pictures())[0].shape


def test_quantising_and_back_is_within_half_a_step() -> None:
    layer = Quantised(torch.ones(1, 1), (-1.0, 3.0))
    numbers = torch.linspace(-1, 3, 1001)

    back = (layer.round_inputs(numbers).float() - layer.input_zero_point) * layer.input_scale

    # The zero point is a whole number, so the ends of the range may lie up to half a step outside the levels.
    assert float((back - numbers).abs()[5:-5].max()) <= layer.input_scale / 2 * 1.001


def test_a_weight_that_is_not_finite_is_refused_by_name() -> None:
    with pytest.raises(ManifestError, match=r"precision_plan\.head: int8: .*NaN"):
        Int8Weight.of("head", torch.tensor([[float("nan")]]), (0, 1))


@on_cpus_with("fp16")
def test_a_weight_that_fp16_cannot_hold_is_refused_by_name() -> None:
    net = make_net()
    net.head.weight[0, 0] = 1e6

    with pytest.raises(ManifestError, match=r"precision_plan\.head: torch\.float16: tensor 'head\.weight'"):
        apply_precision(net, planned("fp16"))


@on_cpus_with("bf16")
def test_tensors_shared_by_layers_of_unlike_precision_are_refused() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    net[1].weight = net[0].weight

    with pytest.raises(ManifestError, match=r"'1\.weight' is '0\.weight' too"):
        apply_precision(net, planned("bf16", {"1": "fp32"}, {}))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (planned("mixed", {"block.9": "fp32"}), r"precision_plan\.block\.9: fp32: the network has no module"),
        (planned("mixed", {"block.1": "int8"}), r"precision_plan\.block\.1: int8: nothing in it can be quantised"),
        (planned("int8", ranges={"stem": (0, 1)}), r"activation_ranges\.block\.0 is missing"),
        (planned("fp32", {"head": "fp32"}, {"nose": (0, 1)}), r"activation_ranges\.nose: the network has no module"),
    ],
)
def test_a_plan_that_does_not_fit_the_network_is_refused(plan: PrecisionPlan, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        apply_precision(make_net(), plan)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8"])
def test_a_host_that_cannot_run_a_precision_says_so(precision: Any) -> None:
    check_host([precision], "cpu", EVERY_CPU)

    with pytest.raises(ConfigurationError, match=f"precision {precision}: this CPU has no "):
        check_host([precision], "cpu", {})


def test_int8_is_refused_on_cuda() -> None:
    with pytest.raises(ConfigurationError, match=r"int8 runs on model\.device cpu only"):
        check_host(["int8"], "cuda:0")


def test_only_layers_that_the_kernels_fit_are_quantisable() -> None:
    net = torch.nn.ModuleDict({
        "conv": torch.nn.Conv2d(1, 1, 1),
        "same": torch.nn.Conv2d(1, 1, 1, padding="same"),
        "mirror": torch.nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"),
        "attention": torch.nn.MultiheadAttention(4, 1),
        "linear": torch.nn.Linear(1, 1),
    })  # fmt: skip

    assert find_quantisable(net) == ["conv", "linear"]


def test_nested_outputs_keep_their_types() -> None:
    class Answer(dict[str, Any]):
        pass

    value = Answer(a=[torch.zeros(1), (torch.zeros(1, dtype=torch.int64), "text")])

    found = cast_floats(value, torch.bfloat16)

    assert type(found) is Answer
    assert (found["a"][0].dtype, found["a"][1][0].dtype, found["a"][1][1]) == (torch.bfloat16, torch.int64, "text")
    assert value["a"][0].dtype == torch.float32
