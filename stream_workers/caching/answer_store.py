"""The answers that one member keeps in memory, bounded by bytes; what was used longest ago goes first. Pure."""

from collections import OrderedDict

ENTRY_OVERHEAD_BYTES = 256
"""What an entry costs beside its output: headers of two bytes objects, a 64-byte key and its place; 235 measured."""


class AnswerStore:
    """JSON outputs by key. Not thread-safe: one thread owns it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self.held_bytes = 0
        """Outputs and their overhead; never above `max_bytes`."""

    def __len__(self) -> int:
        """Answers held."""
        return len(self._entries)

    def get(self, key: bytes) -> bytes | None:
        """Return the output under `key` and count it as used now, or None."""
        output = self._entries.get(key)
        if output is not None:
            self._entries.move_to_end(key)
        return output

    def put(self, key: bytes, output: bytes) -> None:
        """Keep an output and let go of older ones until it fits. One that can never fit is not kept."""
        cost = ENTRY_OVERHEAD_BYTES + len(output)
        if cost > self._max_bytes:
            return
        entries = self._entries
        known = entries.pop(key, None)
        if known is not None:
            self.held_bytes -= ENTRY_OVERHEAD_BYTES + len(known)
        entries[key] = output
        self.held_bytes += cost
        while self.held_bytes > self._max_bytes:
            _, oldest = entries.popitem(last=False)
            self.held_bytes -= ENTRY_OVERHEAD_BYTES + len(oldest)
