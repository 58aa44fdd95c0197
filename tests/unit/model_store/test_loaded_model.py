import json
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from model_store.inference_model import InferenceModel, ModelContext
from model_store.loaded_model import WHOLE_BATCH, LoadedModel
from model_store.outcomes import ModelStageError, RecordError
from model_store.output_encoding import NonFinite
from model_store.payloads import Payload
from schemas.errors import InvalidInputError
from schemas.records import JSON, Stage
from schemas.settings import LimitSettings


class NumpyRuntime:
    """A runtime without torch: arrays stay arrays."""

    def inference(self) -> Any:
        return nullcontext()

    def to_device(self, inputs: Any) -> Any:
        return inputs

    def to_host(self, outputs: Any) -> Any:
        return outputs


class Doubling(InferenceModel):
    """Answers each row twice as large; keeps the shapes it met."""

    def __init__(self, context: ModelContext) -> None:
        super().__init__(context)
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, module: Any, inputs: Any) -> Any:
        self.shapes.append(inputs.shape)
        return inputs * 2


def loaded(model_class: type[InferenceModel] = Doubling, non_finite: NonFinite = "reject") -> LoadedModel:
    return LoadedModel(model_class(ModelContext()), None, NumpyRuntime(), non_finite)


def payloads(*values: object) -> list[Payload]:
    return [Payload(JSON, json.dumps(value).encode(), request_id=str(n)) for n, value in enumerate(values)]


def test_every_record_is_answered_in_order() -> None:
    assert loaded().run(payloads([1.0], [2.0], [3.0])) == [b"[2.0]", b"[4.0]", b"[6.0]"]


def test_an_empty_batch_has_no_answers() -> None:
    assert loaded().run([]) == []


def test_a_refused_record_leaves_its_neighbours_alone() -> None:
    first, refused, last = loaded().run(payloads([1.0], "no", [3.0]))

    assert (first, last) == (b"[2.0]", b"[6.0]")
    assert isinstance(refused, RecordError)
    assert (refused.stage, refused.code, refused.error_class) == (
        Stage.PREPROCESS,
        "invalid_input",
        "InvalidInputError",
    )


def test_a_batch_of_refused_records_never_reaches_the_model() -> None:
    model = loaded()

    assert all(isinstance(answer, RecordError) for answer in model.run(payloads("a", "b")))
    assert model.model.shapes == []  # type: ignore[attr-defined]  # Doubling has them


def test_unlike_shapes_run_apart_and_come_back_in_order() -> None:
    model = loaded()

    answers = model.run(payloads([1.0], [1.0, 2.0], [3.0], [3.0, 4.0]))

    assert answers == [b"[2.0]", b"[2.0,4.0]", b"[6.0]", b"[6.0,8.0]"]
    assert model.model.shapes == [(2, 1), (2, 2)]  # type: ignore[attr-defined]  # Doubling has them


def test_an_unexpected_error_in_preprocess_refuses_that_record_only() -> None:
    class Fragile(Doubling):
        def preprocess(self, payload: Payload) -> Any:
            if payload.request_id == "1":
                raise KeyError("at 0xdeadbeef")
            return payload.numbers()

    answers = loaded(Fragile).run(payloads([1.0], [2.0], [3.0]))

    assert answers[0] == b"[2.0]"
    assert answers[2] == b"[6.0]"
    assert answers[1] == RecordError(Stage.PREPROCESS, "model_failure", "KeyError", "KeyError: 'at 0x…'")


def test_a_vectorised_preprocess_that_raises_is_redone_one_by_one() -> None:
    class Vectorised(Doubling):
        def preprocess_batch(self, payloads: Sequence[Payload]) -> Any:
            rows = [payload.json() for payload in payloads]
            if "no" in rows:
                raise InvalidInputError("one of them")
            return np.array(rows)

    model = loaded(Vectorised)

    assert model.run(payloads([1.0], [2.0])) == [b"[2.0]", b"[4.0]"]
    first, refused = model.run(payloads([1.0], "no"))
    assert first == b"[2.0]"
    assert isinstance(refused, RecordError)


@pytest.mark.parametrize("stage", ["collate", "forward", "postprocess"])
def test_a_failure_of_the_whole_batch_carries_its_stage(stage: str) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("boom at 0x7fffdeadbeef")

    failing = type("Failing", (Doubling,), {stage: fail})
    expected = {"collate": Stage.PREPROCESS, "forward": Stage.MODEL, "postprocess": Stage.POSTPROCESS}[stage]

    with pytest.raises(ModelStageError, match="boom at 0x…") as caught:
        loaded(failing).run(payloads([1.0], [2.0]))

    assert caught.value.stage == expected
    assert caught.value.cause_class == "RuntimeError"


def test_running_out_of_memory_has_its_own_code() -> None:
    assert ModelStageError(Stage.MODEL, MemoryError()).code == "model_out_of_memory"
    assert ModelStageError(Stage.MODEL, ValueError()).code == "model_failure"


@pytest.mark.parametrize("answers", [[], [1], [1, 2, 3], "ab", {"a": 1, "b": 2}, None, iter([1, 2])])
def test_a_wrong_number_of_answers_fails_the_batch_and_never_shifts_one(answers: Any) -> None:
    miscounting = type("Miscounting", (Doubling,), {"postprocess": lambda *_: answers})

    with pytest.raises(ModelStageError, match="2"):
        loaded(miscounting).run(payloads([1.0], [2.0]))


@pytest.mark.parametrize(
    "wrap", [lambda rows: rows, lambda rows: rows.tolist(), lambda rows: [{"a": list(r)} for r in rows]]
)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_an_answer_that_is_not_finite_is_refused_by_default(wrap: Any, bad: float) -> None:
    class Poisoned(Doubling):
        def postprocess(self, outputs: Any, count: int) -> Any:
            outputs[1, 0] = bad
            return wrap(outputs)

    answers = loaded(Poisoned).run(payloads([1.0], [2.0], [3.0]))

    assert isinstance(answers[0], bytes)
    assert isinstance(answers[2], bytes)
    refused = answers[1]
    assert isinstance(refused, RecordError)
    assert (refused.stage, refused.code) == (Stage.POSTPROCESS, "invalid_output")


def test_an_answer_that_is_not_finite_is_marked_when_allowed() -> None:
    class Poisoned(Doubling):
        def postprocess(self, outputs: Any, count: int) -> Any:
            outputs[0] = np.nan
            return outputs

    answers = loaded(Poisoned, "allow").run(payloads([1.0], [2.0]))

    assert answers == [b'{"non_finite":true,"output":[null]}', b"[4.0]"]


def test_a_null_that_the_model_means_is_no_nan() -> None:
    meaning = type("Meaning", (Doubling,), {"postprocess": lambda *_: [None, {"a": None, "b": "null"}]})

    assert loaded(meaning).run(payloads([1.0], [2.0])) == [b"null", b'{"a":null,"b":"null"}']


def test_numpy_values_inside_answers_become_json() -> None:
    values = [{"a": np.float32(0.5), "b": np.arange(2), "c": np.bool_(True)}]
    mixed = type("Mixed", (Doubling,), {"postprocess": lambda *_: values})

    assert loaded(mixed).run(payloads([1.0])) == [b'{"a":0.5,"b":[0,1],"c":true}']


def test_an_answer_that_json_cannot_hold_refuses_that_record_only() -> None:
    odd = type("Odd", (Doubling,), {"postprocess": lambda *_: [object(), 1]})

    refused, answer = loaded(odd).run(payloads([1.0], [2.0]))

    assert answer == b"1"
    assert isinstance(refused, RecordError)
    assert refused.code == "invalid_output"


def test_an_answer_larger_than_its_topic_allows_is_refused() -> None:
    long = type("Long", (Doubling,), {"postprocess": lambda *_: ["x" * 2000]})
    payload = Payload(JSON, b"[1.0]", limits=LimitSettings(result_bytes=1024))

    (refused,) = loaded(long).run([payload])

    assert isinstance(refused, RecordError)
    assert "1024" in refused.message


def test_progress_names_the_record_before_its_own_code_and_minus_one_before_common_code() -> None:
    told: list[int] = []

    loaded().run(payloads([1.0], "no", [3.0]), told.append)

    assert told == [0, 1, 2, WHOLE_BATCH]


def test_items_may_be_dicts_and_tuples() -> None:
    class Nested(InferenceModel):
        def preprocess(self, payload: Payload) -> Any:
            return {"a": payload.numbers(), "b": (payload.numbers(), payload.numbers())}

        def forward(self, module: Any, inputs: Any) -> Any:
            return inputs["a"] + inputs["b"][0] + inputs["b"][1]

    assert loaded(Nested).run(payloads([1.0], [2.0])) == [b"[3.0]", b"[6.0]"]


def test_the_warm_up_runs_the_example_alone_and_as_a_full_batch() -> None:
    class WithExample(Doubling):
        def example(self) -> Payload:
            return Payload(JSON, b"[1.0]")

    model = loaded(WithExample)

    assert model.warm_up(8) == 9
    assert model.model.shapes == [(1, 1), (8, 1)]  # type: ignore[attr-defined]  # Doubling has them
    assert loaded().warm_up(8) == 0


def test_an_example_that_is_refused_fails_the_warm_up() -> None:
    refused = type("Refused", (Doubling,), {"example": lambda _: Payload(JSON, b"no")})

    with pytest.raises(ModelStageError, match="example"):
        loaded(refused).warm_up(8)
