"""The user's `preprocess` over the records of a batch: all at once, one by one, or by several threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload

WHOLE_BATCH = -1
"""What `progress` is told before code that touches all records at once."""

Progress = Callable[[int], None]


class Preprocessor:
    """Turns payloads into items; what a record's own code raises takes its item's place.

    With several `threads`, single records are preprocessed by them, and `progress` is told WHOLE_BATCH, since no single
    record can be named; with one or none, by the caller. A class that has a `preprocess_batch` of its own is asked for
    all at once first.
    """

    def __init__(self, model: InferenceModel, threads: int = 0) -> None:
        self._model = model
        self._vectorised = type(model).preprocess_batch is not InferenceModel.preprocess_batch
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decode") if threads > 1 else None

    def run(self, payloads: Sequence[Payload], progress: Progress) -> Any:
        """Return the items in order, or one array whose first axis is the records where the model class makes one."""
        if self._vectorised:
            progress(WHOLE_BATCH)
            try:
                items = self._model.preprocess_batch(payloads)
                if len(items) == len(payloads):
                    return items
            except Exception:  # noqa: BLE001, S110 - one by one below finds and names the guilty record
                pass
        if self._pool is not None and len(payloads) > 1:
            progress(WHOLE_BATCH)
            return self._run_threaded(self._pool, payloads, progress)
        items = []
        for index, payload in enumerate(payloads):
            progress(index)
            items.append(self._run_one(payload))
        return items

    def _run_threaded(self, pool: ThreadPoolExecutor, payloads: Sequence[Payload], progress: Progress) -> list[Any]:
        futures = [pool.submit(self._run_one, payload) for payload in payloads]
        items, failure = [], None
        for future in futures:
            try:
                items.append(future.result())
            except BaseException as error:  # noqa: BLE001 - raised below: no thread may still read the payloads then
                failure = error
            progress(WHOLE_BATCH)
        if failure is not None:
            raise failure
        return items

    def _run_one(self, payload: Payload) -> Any:
        try:
            return self._model.preprocess(payload)
        except Exception as error:  # noqa: BLE001 - user code: whatever it raises is this record's own failure
            return error
