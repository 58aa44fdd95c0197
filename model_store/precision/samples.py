"""Sample records as the model's own batch inputs, made once and run many times."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from model_store.inference_model import InferenceModel, describe_shape
from model_store.payloads import Payload
from schemas.errors import ConfigurationError, InvalidRecordError, scrub


@dataclass(frozen=True)
class Batch:
    """One batch input, as `collate` made it, and how many records are in it."""

    inputs: Any
    records: int


@dataclass
class Samples:
    """All sample records, by batches of like shape, and what was refused."""

    batches: list[Batch] = field(default_factory=list)
    single: Batch | None = None
    """The first record alone, to time a batch of one with."""
    refused: int = 0
    last_refusal: str = ""

    @property
    def records(self) -> int:
        """Records in all batches."""
        return sum(batch.records for batch in self.batches)

    def thin_out(self, records: int) -> list[Batch]:
        """Evenly spaced batches with about so many records, at least one batch."""
        wanted = max(1, records // max(batch.records for batch in self.batches))
        every = max(1, len(self.batches) // wanted)
        return self.batches[::every][:wanted]


def prepare_samples(model: InferenceModel, payloads: Iterable[Payload], batch_size: int) -> Samples:
    """Preprocess and collate; a record that preprocess refuses is counted. Raises ConfigurationError for no sample."""
    samples = Samples()
    groups: dict[Any, list[Any]] = {}
    for payload in payloads:
        try:
            item = model.preprocess(payload)
        except InvalidRecordError as error:
            samples.refused += 1
            samples.last_refusal = scrub(str(error), limit=200)
            continue
        if samples.single is None:
            samples.single = Batch(model.collate([item]), 1)
        group = groups.setdefault(describe_shape(item), [])
        group.append(item)
        if len(group) == batch_size:
            samples.batches.append(Batch(model.collate(group), batch_size))
            group.clear()
    samples.batches += [Batch(model.collate(group), len(group)) for group in groups.values() if group]
    if not samples.batches:
        reason = f", {samples.refused} were refused, the last: {samples.last_refusal}" if samples.refused else ""
        raise ConfigurationError(f"--data: no sample that the model takes was found{reason}")
    return samples
