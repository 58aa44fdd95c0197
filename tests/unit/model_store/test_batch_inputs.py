import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model_store.batch_inputs import BatchInput, BatchPlan, InputBuilder, cut_rows
from model_store.inference_model import InferenceModel, ModelContext
from model_store.loaded_model import LoadedModel
from model_store.outcomes import ModelStageError, RecordError
from model_store.payloads import Payload
from model_store.torch_loader import TorchRuntime
from schemas.records import JSON

CPU = TorchRuntime("cpu", channels_last=False)
CHANNELS_LAST = TorchRuntime("cpu", channels_last=True)
BUCKETS = (1, 2, 4, 8)


def build(*items: Any, runtime: TorchRuntime = CPU, buckets: tuple[int, ...] = BUCKETS) -> BatchInput:
    return InputBuilder(runtime, BatchPlan(8, buckets)).stack(range(len(items)), items)


class Summing(InferenceModel):
    """Answers the sum of each row; keeps the shapes and the memory that it met."""

    def __init__(self, context: ModelContext) -> None:
        super().__init__(context)
        self.sizes: list[int] = []
        self.addresses: set[int] = set()
        self.fails = False

    def forward(self, module: Any, inputs: Any) -> Any:
        if self.fails:
            raise RuntimeError("as asked")
        self.sizes.append(len(inputs))
        self.addresses.add(inputs.data_ptr())
        return inputs.sum(dim=1)

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:
        assert len(outputs) == count
        return outputs.tolist()  # type: ignore[no-any-return]  # a list of numbers


class Vectorised(Summing):
    def preprocess_batch(self, payloads: Sequence[Payload]) -> Any:
        return np.array([payload.json() for payload in payloads], np.float32)


class Collating(Summing):
    def collate(self, items: Sequence[Any]) -> Any:
        return torch.stack([torch.from_numpy(item) for item in items])


def loaded(model_class: type[Summing] = Summing, plan: BatchPlan | None = None) -> LoadedModel:
    model = LoadedModel(model_class(ModelContext()), None, CPU)
    model.use_plan(plan or BatchPlan(8, BUCKETS))
    return model


def rows(count: int, width: int = 3) -> list[Payload]:
    return [Payload(JSON, json.dumps([float(n)] * width).encode()) for n in range(count)]


@given(st.integers(1, 8), st.sampled_from([(), (3,), BUCKETS]))
def test_padding_repeats_the_last_row_and_keeps_the_records(count: int, buckets: tuple[int, ...]) -> None:
    items = [np.full(3, n, np.float32) for n in range(count)]

    built = build(*items, buckets=buckets)

    assert built.rows == len(built.inputs)
    assert np.array_equal(built.inputs[:count], np.stack(items))
    assert all(np.array_equal(row, items[-1]) for row in built.inputs[count:])


def test_parts_of_one_item_never_share_memory() -> None:
    item = {"a": np.ones(3), "b": (np.zeros(3), torch.full((3,), 2.0, dtype=torch.float64))}

    inputs = build(item, item, item).inputs

    assert inputs["a"].shape == (4, 3)
    assert (inputs["a"] == 1).all()
    assert (inputs["b"][0] == 0).all()
    assert (inputs["b"][1] == 2).all()


def test_items_that_are_no_arrays_are_joined_and_padded_too() -> None:
    assert build(1.5, 2.5, 3.5).inputs.tolist() == [1.5, 2.5, 3.5, 3.5]


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("writeable", [True, False])
def test_channels_last_buffers_need_no_layout_copy(turned: bool, writeable: bool) -> None:
    picture = np.arange(60, dtype=np.float32).reshape((4, 5, 3))
    item = picture.transpose(2, 0, 1) if turned else np.ascontiguousarray(picture.transpose(2, 0, 1))
    item.setflags(write=writeable)

    built = build(item, item, item, runtime=CHANNELS_LAST)
    moved = CHANNELS_LAST.to_device(built.inputs)

    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert moved.data_ptr() == built.lent[0].rows.ctypes.data
    assert np.array_equal(moved.numpy(), np.stack([picture.transpose(2, 0, 1)] * 4))


@pytest.mark.parametrize("model_class", [Summing, Vectorised, Collating])
def test_a_padded_batch_answers_as_an_unpadded_one_and_says_what_it_padded(model_class: type[Summing]) -> None:
    padded, plain = loaded(model_class), loaded(model_class, BatchPlan(8))

    for count, added in [(1, 0), (3, 1), (5, 3), (8, 0)]:
        assert padded.run(rows(count)) == plain.run(rows(count))
        assert (padded.padded, plain.padded) == (added, 0)
    assert padded.model.sizes == [1, 4, 8, 8]  # type: ignore[attr-defined]  # Summing has them


def test_an_input_whose_first_axis_is_not_the_records_is_left_as_it_is() -> None:
    builder = InputBuilder(CPU, BatchPlan(8, BUCKETS))
    for inputs in (np.ones((5, 3)), {"a": np.ones((3, 2)), "b": np.ones(7)}, "text", torch.ones(3).bfloat16()):
        built = builder.pad(range(3), inputs)
        assert built.inputs is inputs
        assert built.padded == 0


def test_outputs_are_cut_wherever_they_count_rows() -> None:
    outputs = {"a": np.arange(8), "b": (np.ones((8, 2)), [np.ones(3)]), "c": 1.0, "d": list(range(8))}

    cut = cut_rows(outputs, 8, 5)

    assert cut["a"].tolist() == [0, 1, 2, 3, 4]
    assert [part.shape for part in (cut["b"][0], cut["b"][1][0])] == [(5, 2), (3,)]
    assert (cut["c"], cut["d"]) == (1.0, [0, 1, 2, 3, 4])


def test_no_input_buffer_is_made_in_steady_state() -> None:
    model = loaded()
    for count in (8, 5, 1):
        model.run(rows(count))
    made = model.buffer_allocations

    for count in range(1, 9):
        model.run(rows(count))

    assert made == 1
    assert model.buffer_allocations == made
    assert len(model.model.addresses) == 1  # type: ignore[attr-defined]  # Summing has them


def test_with_one_batch_prepared_ahead_two_buffers_are_used_in_turn() -> None:
    model = loaded()
    running = model.prepare(rows(2))
    for count in (3, 4, 5, 6):
        ahead = model.prepare(rows(count))
        assert len(model.answer(running)) == running.count
        running = ahead
    assert model.answer(running) == [b"%.1f" % (3 * n) for n in range(6)]

    assert model.buffer_allocations == 2
    assert len(model.model.addresses) == 2  # type: ignore[attr-defined]  # Summing has them


def test_a_batch_that_fails_or_is_dropped_gives_its_buffers_back() -> None:
    model = loaded()
    model.run(rows(2))
    model.discard(model.prepare(rows(2)))
    model.model.fails = True  # type: ignore[attr-defined]  # Summing has it
    for _ in range(3):
        with pytest.raises(ModelStageError, match="as asked"):
            model.run(rows(2))

    assert model.buffer_allocations == 1


def test_ever_new_shapes_are_answered_within_the_bound() -> None:
    model = loaded(plan=BatchPlan(8, BUCKETS, buffer_bytes=10_000))

    for width in range(1, 200):
        answers = model.run(rows(3, width))
        assert not any(isinstance(answer, RecordError) for answer in answers)
        buffers = model._inputs.buffers
        assert buffers is not None
        assert buffers.held_bytes <= 10_000


def test_decode_threads_change_no_answer() -> None:
    assert loaded(plan=BatchPlan(8, BUCKETS, decode_threads=2)).run(rows(7)) == loaded().run(rows(7))


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@needs_cuda
def test_on_cuda_inputs_lie_in_page_locked_memory_and_may_be_written_once_copied() -> None:
    runtime = TorchRuntime("cuda", channels_last=True)
    builder = InputBuilder(runtime, BatchPlan(8, BUCKETS))
    built = builder.stack(range(3), [np.full((3, 64, 64), n, np.float32) for n in range(3)])

    moved = runtime.to_device(built.inputs)
    pinned = torch.from_numpy(built.inputs).is_pinned()
    built.inputs[:] = -1

    assert pinned
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert runtime.to_host(moved)[:, 0, 0, 0].tolist() == [0, 1, 2, 2]


@pytest.mark.gpu
@needs_cuda
def test_on_cuda_a_batch_prepared_beside_another_answers_the_same() -> None:
    model = LoadedModel(Summing(ModelContext()), None, TorchRuntime("cuda", channels_last=False))
    model.use_plan(BatchPlan(8, BUCKETS, decode_threads=2))
    batches = [model.prepare(rows(count)) for count in (3, 5)]

    answers = [model.answer(batch) for batch in batches]

    assert answers == [loaded().run(rows(3)), loaded().run(rows(5))]
