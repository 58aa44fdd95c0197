import threading
from typing import Any

import pytest

from model_store.inference_model import InferenceModel, ModelContext
from model_store.payloads import Payload
from model_store.preprocessing import WHOLE_BATCH, Preprocessor
from schemas.errors import InvalidInputError
from schemas.records import JSON


class Reader(InferenceModel):
    def preprocess(self, payload: Payload) -> Any:
        value = payload.json()
        if value == "exit":
            raise SystemExit(3)
        if value == "no":
            raise InvalidInputError("no")
        return value, threading.current_thread().name


def payloads(*values: object) -> list[Payload]:
    return [Payload(JSON, f'"{value}"'.encode()) for value in values]


def test_with_threads_items_and_refusals_keep_their_order() -> None:
    told: list[int] = []

    items = Preprocessor(Reader(ModelContext()), 2).run(payloads(*range(10), "no"), told.append)

    assert [value for value, _ in items[:-1]] == [str(n) for n in range(10)]
    assert all(name.startswith("decode") for _, name in items[:-1])
    assert isinstance(items[-1], InvalidInputError)
    assert set(told) == {WHOLE_BATCH}  # no single record can be named while several are worked on


def test_a_single_record_is_preprocessed_by_the_caller_and_named() -> None:
    told: list[int] = []

    ((_, name),) = Preprocessor(Reader(ModelContext()), 2).run(payloads("a"), told.append)

    assert (name, told) == (threading.current_thread().name, [0])


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_an_exit_in_user_code_reaches_the_caller(threads: int) -> None:
    with pytest.raises(SystemExit):
        Preprocessor(Reader(ModelContext()), threads).run(payloads("a", "exit", "b"), lambda _: None)


def test_an_exit_waits_for_the_other_records_which_may_be_reading_their_payloads() -> None:
    gate, finished = threading.Event(), []

    class Slow(Reader):
        def preprocess(self, payload: Payload) -> Any:
            if payload.json() == "exit":
                gate.set()
                raise SystemExit(3)
            assert gate.wait(10)
            finished.append(payload.json())
            return 1

    with pytest.raises(SystemExit):
        Preprocessor(Slow(ModelContext()), 2).run(payloads("exit", "a", "b"), lambda _: None)
    assert sorted(finished) == ["a", "b"]
