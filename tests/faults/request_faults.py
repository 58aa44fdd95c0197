"""Which request a fault picks, what happens to it, and what became of it. The proxy does it."""

import asyncio
import enum
import threading
from dataclasses import dataclass, field


class ApiKey(enum.IntEnum):
    """The requests that fault tests aim at, by their number in the Kafka protocol."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Action(enum.Enum):
    """What happens to a request that a fault picks."""

    HOLD = "hold"
    """Kept, and delivered later on a connection of its own."""
    DROP = "drop"
    """Never delivered; the client's connection stays open and waits."""
    DELAY = "delay"
    """Delivered late on the same connection, which keeps its order meanwhile."""
    RESET = "reset"
    """Never delivered; the client's connection is cut."""


@dataclass
class Fault:
    """One armed fault. `struck` is set when it picked its request, `finished` when nothing of it is left to happen."""

    action: Action
    api_key: int
    nth: int | None
    """Counted among the requests of `api_key` since the fault was armed, from 1; None picks every one."""
    seconds: float | None = None
    cut: bool = False
    seen: int = 0
    response: bytes = b""
    """What the broker answered to a held request, from the correlation id on."""
    struck: threading.Event = field(default_factory=threading.Event)
    finished: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Deliver a held request now, whatever its time."""
        self._released.set()

    def picks(self, api_key: int) -> bool:
        """Count this request and say whether the fault is meant for it."""
        if api_key != self.api_key or (self.nth is not None and self.seen >= self.nth):
            return False
        self.seen += 1
        return self.nth is None or self.seen == self.nth

    async def wait_for_delivery(self) -> None:
        """Return when the held request is due: after `seconds`, or on `release()`."""
        deadline = None if self.seconds is None else asyncio.get_running_loop().time() + self.seconds
        while not self._released.is_set() and (deadline is None or asyncio.get_running_loop().time() < deadline):
            await asyncio.sleep(0.01)
