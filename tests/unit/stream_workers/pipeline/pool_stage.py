"""The stage of a pool: its supervisor and its model processes are played, over real sockets and a real ring."""

import os
import socket
from collections.abc import Sequence

from schemas.settings import ModelSettings, Settings, TopicSettings, urgent_slots
from stream_workers.batching.work import Batch, ReleaseReason, ServedVersion
from stream_workers.links.framing import MAX_DATA_BYTES, FrameReader, frame
from stream_workers.links.input_ring import PAGE_BYTES, InputRing, create_ring
from stream_workers.links.messages import (
    Attach,
    Message,
    Ready,
    Residents,
    ResidentSet,
    Run,
    decode,
    encode,
    run_decoder,
)
from stream_workers.pipeline.contract import BatchOutcome
from stream_workers.pipeline.replica_pool import PoolMessage, ReplicaPool
from tests.fakes.json_records import item

SLOT_BYTES = 16 * PAGE_BYTES


class PlayedModel:
    def __init__(self, instance: int, version: ServedVersion, slots: int = 2) -> None:
        self.instance, self.version = instance, version
        theirs, self.socket = socket.socketpair()
        descriptor = create_ring(slots, SLOT_BYTES)
        self.attach = Attach(instance, version, slots, SLOT_BYTES), [theirs.detach(), descriptor]
        self.ring = InputRing(os.dup(descriptor), slots, SLOT_BYTES)
        self.ring.reset()
        self._reader = FrameReader(MAX_DATA_BYTES)

    def say(self, message: Message) -> None:
        self.socket.sendall(frame(encode(message), MAX_DATA_BYTES))

    def orders(self) -> list[Run]:
        return [decode(run_decoder, body) for body in self._reader.feed(self.socket.recv(1 << 20))]


class PlayedLink:
    has_unsent = False

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self.messages: list[tuple[PoolMessage, list[int]]] = []
        self.released: list[int] = []
        self.killed: list[tuple[int, str]] = []

    def send(self, message: PoolMessage, descriptors: list[int] | None = None) -> None:
        self.messages.append((message, descriptors or []))
        self._theirs.send(b"x")

    def fileno(self) -> int:
        return self._ours.fileno()

    def flush(self) -> None: ...

    def receive(self) -> list[tuple[PoolMessage, list[int]]]:
        if self.messages:
            self._ours.recv(100)
        messages, self.messages = self.messages, []
        return messages

    def release(self, instance: int) -> None:
        self.released.append(instance)

    def kill_instance(self, instance: int, code: str) -> None:
        self.killed.append((instance, code))

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Stage:
    """A pool with its supervisor and its model processes, all but the pool played."""

    def __init__(self, topics: TopicSettings | None = None) -> None:
        self.now = 0.0
        self.link = PlayedLink()
        settings = Settings(model=ModelSettings(batch_timeout_seconds=10.0), topics=topics or TopicSettings())
        self._slots = settings.batching.slots + urgent_slots(settings)
        self.pool = ReplicaPool(self.link, settings, lambda: self.now)
        self.models: list[PlayedModel] = []

    def announce(self, active: ServedVersion | None, *models: PlayedModel) -> None:
        """Say which of the processes are resident."""
        names = dict.fromkeys(model.version.version for model in models)
        groups = {name: [one.instance for one in models if one.version.version == name] for name in names}
        self.link.send(Residents(active, [ResidentSet(name, group, True) for name, group in groups.items()]))

    def load(self, version: ServedVersion, count: int = 1) -> list[PlayedModel]:
        """Make so many model processes; they have said nothing yet."""
        fresh = [PlayedModel(len(self.models) + number + 1, version, self._slots) for number in range(count)]
        self.models += fresh
        return fresh

    def serve(
        self, version: ServedVersion, count: int = 1, identity: bytes = b"", beside: Sequence[PlayedModel] = ()
    ) -> list[PlayedModel]:
        """Attach so many ready model processes and let the pool turn to them; `beside` stay resident."""
        fresh = self.load(version, count)
        self.announce(version, *beside, *fresh)
        for model in fresh:
            self.link.send(*model.attach)
        self.collect()
        for model in fresh:
            model.say(Ready(version, identity))
        self.collect()
        return fresh

    def collect(self) -> list[BatchOutcome]:
        return [*self.pool.collect(0.0, self.now), *self.pool.collect(0.0, self.now)]

    def submit(self, number: int, records: int = 2, priority: int = 0, version: ServedVersion | None = None) -> Batch:
        items = [item(index, {"x": index}) for index in range(records)]
        met = version or self.pool.active_version() or ServedVersion("m", "none", 0)
        batch = Batch(number, items, ReleaseReason.FULL, met, priority=priority)
        self.pool.submit(batch, self.now)
        return batch
