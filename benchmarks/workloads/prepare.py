"""Writes what a run of a workload needs, in the environment of its model: `python -m benchmarks.workloads.prepare`.

Into the folder go `weights.safetensors`, `payloads.msgpack`, `expected.json` (the answers of the model in float32, one
thread, as documented) and, in `models/`, the version that Headrace serves.
"""

import sys
from pathlib import Path

import msgspec
from safetensors.torch import save_file

from benchmarks.workloads.specification import EXPECTED, MODELS, PAYLOADS, VERSION, WEIGHTS, WORKLOADS
from benchmarks.workloads.task import ModelStep, load_task
from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore
from model_store.torch_loader import save_state


def prepare(name: str, folder: Path) -> None:
    """Write the files of one workload."""
    workload = WORKLOADS[name]
    task = load_task(workload)
    state = {key: value.contiguous() for key, value in task.state().items()}
    save_file(state, folder / WEIGHTS)
    payloads = list(task.payloads())
    (folder / PAYLOADS).write_bytes(msgspec.msgpack.encode(payloads))
    step = ModelStep(workload, folder / WEIGHTS, is_tuned=False, threads=1)
    batches = [payloads[start : start + workload.batch_size] for start in range(0, len(payloads), workload.batch_size)]
    answers = [msgspec.Raw(answer) for batch in batches for answer in step.answer(batch)]
    (folder / EXPECTED).write_bytes(msgspec.json.encode(answers))
    draft = VersionDraft(
        name=name,
        version=VERSION,
        model_class=workload.model_class,
        labels=task.labels(),
        options=workload.options,
        description=workload.title,
    )
    publish_state(ModelStore(folder / MODELS), draft, state, save_state)


if __name__ == "__main__":
    prepare(sys.argv[1], Path(sys.argv[2]))
