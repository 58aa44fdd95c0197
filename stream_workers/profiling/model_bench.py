"""Real model processes without a worker around them: started, linked and fed exactly as a worker does it, no Kafka."""

import selectors
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

from schemas.errors import ConfigurationError, ModelFailureError
from schemas.settings import Settings, instances_per_member
from stream_workers.batching.work import Batch, ReleaseReason, ServedVersion, WorkItem
from stream_workers.links.input_ring import InputRing
from stream_workers.links.messages import Attach, Message
from stream_workers.pipeline.contract import BatchAnswered, BatchOutcome, RecordRefused
from stream_workers.pipeline.replica import Replica
from stream_workers.supervision.launcher import Launcher
from stream_workers.supervision.model_check import await_loaded
from stream_workers.supervision.model_instance import ModelInstance

_READY_SECONDS = 10.0
_ENDING_SECONDS = 2.0


class ModelBench:
    """As many model instances as the settings say, of one version. A context manager: they end with it.

    Entering raises ConfigurationError when the version cannot be loaded. Anything but an answer to a batch raises:
    ConfigurationError when the model refused a record, ModelFailureError when it failed or died.
    """

    def __init__(self, settings: Settings, version: ServedVersion, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._version = version
        self._launcher = Launcher(settings, environment)
        self._resources = ExitStack()
        self._selector = selectors.DefaultSelector()
        self._models: list[ModelInstance] = []
        self._serial = 0
        self.replicas: list[Replica] = []

    def __enter__(self) -> "ModelBench":
        try:
            for _ in range(instances_per_member(self._settings)):
                self._start()
            for model in self._models:
                await_loaded(model, self._settings.model.load_timeout_seconds)
                self._attach(model)
            self._await_ready()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def batches_in_hand(self) -> int:
        """Batches submitted and not answered."""
        return sum(replica.batches_in_hand for replica in self.replicas)

    def count_free_slots(self) -> int:
        """Batches that may be submitted now."""
        return sum(replica.count_free_slots() for replica in self.replicas)

    def submit(self, items: Sequence[WorkItem], now: float, replica: Replica | None = None) -> None:
        """Give a batch to a replica, by default to the one with the least in hand, as a worker does."""
        if replica is None:
            replica = min((one for one in self.replicas if one.count_free_slots()), key=lambda one: one.batches_in_hand)
        self._serial += 1
        batch = Batch(self._serial, items, ReleaseReason.FULL, self._version)
        batch.submitted_at = now
        replica.submit(batch, now)
        self._watch(replica)

    def collect(self, timeout_seconds: float) -> list[tuple[Replica, BatchAnswered]]:
        """Wait for answers, at most so long, and return each with the replica that gave it."""
        answers: list[tuple[Replica, BatchAnswered]] = []
        for key, mask in self._selector.select(timeout_seconds):
            replica: Replica = key.data
            if mask & selectors.EVENT_WRITE:
                replica.flush()
            if mask & selectors.EVENT_READ:
                answers += [(replica, self._check(outcome)) for outcome in replica.receive(time.monotonic())]
                if replica.is_gone:
                    raise self._explain_loss()
            self._watch(replica)
        if not answers and any(
            replica.is_stuck(self._settings.model.batch_timeout_seconds, time.monotonic()) for replica in self.replicas
        ):
            limit = self._settings.model.batch_timeout_seconds
            raise ModelFailureError(f"{self._name()}: no progress within model.batch_timeout_seconds ({limit:g})")
        return answers

    def _start(self) -> None:
        model = self._launcher.start_model(self._version, time.monotonic())
        self._models.append(model)
        self._resources.callback(model.discard)
        self._resources.callback(model.child.reap)

    def _attach(self, model: ModelInstance) -> None:
        def take(message: Message, descriptors: Sequence[int]) -> None:
            if not isinstance(message, Attach):
                return
            ring = InputRing(descriptors[1], message.slots, message.slot_bytes)
            replica = Replica(message, descriptors[0], ring, time.monotonic())
            self._resources.callback(replica.close)
            self.replicas.append(replica)
            self._selector.register(replica, selectors.EVENT_READ, replica)

        model.attach(self._version, take)

    def _await_ready(self) -> None:
        give_up_at = time.monotonic() + _READY_SECONDS
        while not all(replica.is_ready for replica in self.replicas):
            if time.monotonic() > give_up_at:
                raise ModelFailureError(f"{self._name()}: loaded, but not ready within {_READY_SECONDS:g} s")
            self.collect(0.1)

    def _watch(self, replica: Replica) -> None:
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if replica.has_unsent else 0)
        if self._selector.get_key(replica).events != mask:
            self._selector.modify(replica, mask, replica)

    def _check(self, outcome: BatchOutcome) -> BatchAnswered:
        if not isinstance(outcome, BatchAnswered):
            detail = outcome.detail if hasattr(outcome, "detail") else f"{outcome.error_class}: {outcome.message}"
            raise ModelFailureError(f"{self._name()}: a batch of {len(outcome.batch.items)} failed: {detail}")
        for item, answer in zip(outcome.batch.items, outcome.outcomes, strict=True):
            if isinstance(answer, RecordRefused):
                raise ConfigurationError(
                    f"{self._name()} refused a sample ({item.request.content_type}, {item.payload_bytes} bytes):"
                    f" {answer.message}; --data must hold records that the model takes"
                )
        return outcome

    def _explain_loss(self) -> ModelFailureError:
        # The socket's end comes a moment before the process's own.
        give_up_at = time.monotonic() + _ENDING_SECONDS
        while time.monotonic() < give_up_at:
            for model in self._models:
                if (code := model.child.poll()) is not None:
                    return ModelFailureError(f"{self._name()}: its process ended: {model.explain(code).detail}")
            time.sleep(0.01)
        return ModelFailureError(f"{self._name()}: its process closed the link")

    def _name(self) -> str:
        return f"model {self._version.model}, version {self._version.version}"

    def _close(self) -> None:
        self._selector.close()
        self._resources.close()
