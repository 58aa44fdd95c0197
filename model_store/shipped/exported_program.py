"""The class `exported`: serves a program from `torch.export` without any code of its author."""

import io
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from model_store.exported.graph import METADATA_KEY, Graph, TensorForm, decode_graph
from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.errors import InvalidInputError, ManifestError
from schemas.records import NPY

_LARGEST_EXAMPLE = 1 << 24


class ExportedProgramModel(InferenceModel):
    """One input: numbers as JSON or `.npy`. Several: a safetensors payload with a tensor for each, by name.

    A record's shape is the program's without the batch. Answers are rows of numbers, or objects of them by the names of
    the program's outputs. Subclass it to prepare inputs or word answers in another way.
    """

    cacheable = True

    @cached_property
    def graph(self) -> Graph:
        """The program. Raises ManifestError when the weights carry none, UnsupportedProgramError for an unsound one."""
        text = self.context.metadata.get(METADATA_KEY)
        if text is None:
            raise ManifestError("class exported: the weights carry no program; publish_program puts one there")
        return decode_graph(text)

    def build(self) -> Any:
        """The module that runs the program, without weights."""
        from model_store.exported.program_module import ProgramModule  # noqa: PLC0415 - torch takes seconds

        return ProgramModule(self.graph)

    def preprocess(self, payload: Payload) -> Any:
        """An array of the input's dtype and shape, or a dict of them."""
        forms = self.graph.inputs
        if len(forms) == 1:
            return _fit(payload.numbers(), forms[0])
        given = payload.tensors()
        missing = [form.name for form in forms if form.name not in given]
        if missing:
            raise InvalidInputError(f"the tensor {missing[0]!r} is missing; the model takes those of {_names(forms)}")
        return {form.name: _fit(given[form.name], form) for form in forms}

    def postprocess(self, outputs: Any, count: int) -> Any:
        """Each record's part of every output."""
        if not isinstance(outputs, dict):
            return outputs
        rows = {name: tensor.tolist() for name, tensor in outputs.items()}
        return [{name: row[index] for name, row in rows.items()} for index in range(count)]

    def example(self) -> Payload | None:
        """Zeros, when the program has one input of a fixed size."""
        forms = self.graph.inputs
        shape = [size for size in forms[0].shape[1:] if size is not None]
        elements = int(np.prod(shape, dtype=np.int64))
        if len(forms) != 1 or len(shape) != len(forms[0].shape) - 1 or elements > _LARGEST_EXAMPLE:
            return None
        return Payload(NPY, _npy(np.zeros(shape, np.float32)))


def _fit(array: npt.NDArray[Any], form: TensorForm) -> npt.NDArray[Any]:
    """Return the array in the dtype of the input. Raises InvalidInputError for another shape or a lossy change."""
    expected = form.shape[1:]
    fits = array.ndim == len(expected) and all(
        size in (None, given) for size, given in zip(expected, array.shape, strict=False)
    )
    if not fits:
        shown = " x ".join("any" if size is None else str(size) for size in expected)
        raise InvalidInputError(f"input {form.name}: shape {array.shape} is not {shown or 'a single number'}")
    dtype = np.dtype(np.float32 if form.dtype in ("float16", "bfloat16") else form.dtype)
    if dtype.kind in "iub":
        with np.errstate(invalid="ignore"):
            whole = array.astype(dtype)
        if not np.array_equal(whole, array):
            raise InvalidInputError(f"input {form.name}: not every number is one of {form.dtype}")
        return whole
    return array.astype(dtype, copy=False)


def _names(forms: list[TensorForm]) -> str:
    return ", ".join(form.name for form in forms)


def _npy(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
