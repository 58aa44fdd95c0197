"""What a model run gives: per record an answer or a refusal, and one error for a batch that failed as a whole."""

from dataclasses import dataclass

from schemas.errors import ModelFailureError, PipelineError, scrub
from schemas.records import Stage


@dataclass(frozen=True, slots=True)
class RecordError:
    """One record refused; its neighbours were answered. `code` is one of the codes of the error tree."""

    stage: Stage
    code: str
    error_class: str
    message: str


class ModelStageError(ModelFailureError):
    """The model failed on this batch as a whole. With more than one record in it, the guilty one is not known yet."""

    def __init__(self, stage: Stage, cause: BaseException) -> None:
        super().__init__(f"{stage.value}: {describe_failure(cause)}")
        self.stage = stage
        self.cause_class = type(cause).__name__
        if isinstance(cause, MemoryError) or "OutOfMemory" in self.cause_class:
            self.code = "model_out_of_memory"


def refuse(stage: Stage, error: BaseException) -> RecordError:
    """Describe `error` as the fault of one record: its own code when it is one of ours, else a model failure."""
    if isinstance(error, PipelineError):
        return RecordError(stage, error.code, type(error).__name__, scrub(str(error)))
    code = "model_out_of_memory" if isinstance(error, MemoryError) else ModelFailureError.code
    return RecordError(stage, code, type(error).__name__, describe_failure(error))


def describe_failure(error: BaseException) -> str:
    """Spell an error that is not ours: its class too, for the text alone may be as short as the name of a key."""
    return scrub(f"{type(error).__name__}: {error}".removesuffix(": "))
