"""Tensors out of the old checkpoint format, for pinned files only, without unpickling them.

Not an unpickler: it walks the few opcodes that a state dict needs and builds plain data. Nothing is imported, looked up
or called; any other opcode, or any global beyond four known names, ends the reading. See docs/decisions/0010.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.errors import ChecksumMismatchError, UnsafeFileError

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_ITEM = {"torch FloatStorage": "<f4", "torch LongStorage": "<i8"}
_REBUILD = "torch._utils _rebuild_tensor_v2"
_ORDERED = "collections OrderedDict"
_MAX_BYTES = 256 << 20
Array = npt.NDArray[Any]


class _Global(NamedTuple):
    name: str


class _Storage(NamedTuple):
    dtype: str
    key: str
    items: int


class _Tensor(NamedTuple):
    storage: _Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_pinned_archive(path: Path, sha256: str) -> dict[str, Array]:
    """Return the tensors of the one file whose SHA-256 is `sha256`, by name, each a copy.

    Raises ChecksumMismatchError before anything in another file is looked at, UnsafeFileError when it is not a plain
    state dict after all.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ChecksumMismatchError(f"{path.name}: SHA-256 is {found}, expected {sha256}")
    try:
        return _read(data)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise UnsafeFileError(f"{path.name} is not a plain state dict: {error}") from None


def _read(data: bytes) -> dict[str, Array]:
    reader = _PlainReader(data)
    if reader.next_value() != _MAGIC or reader.next_value() != _PROTOCOL:
        raise ValueError("not the old checkpoint format")
    reader.next_value()  # byte order and type sizes of the writer
    state, keys = reader.next_value(), reader.next_value()
    storages = {tensor.storage.key: tensor.storage for tensor in state.values()}
    position, arrays = reader.position, {}
    for key in keys:
        storage = storages[key]
        count = int.from_bytes(data[position : position + 8], "little")
        if count != storage.items:
            raise ValueError(f"storage {key} has {count} items, not {storage.items}")
        arrays[key] = np.frombuffer(data, storage.dtype, count, position + 8)
        position += 8 + arrays[key].nbytes
    if position != len(data):
        raise ValueError("bytes after the last tensor")
    return {name: _cut(arrays[tensor.storage.key], tensor) for name, tensor in state.items()}


def _cut(values: Array, tensor: _Tensor) -> Array:
    size = values.itemsize
    strides = tuple(step * size for step in tensor.strides)
    # This constructor checks that no element lies outside of the buffer.
    view: Array = np.ndarray(tensor.shape, values.dtype, values.data, tensor.start * size, strides)
    return view.copy(order="C")


class _PlainReader:
    """A stack machine for plain values. `_STEPS` holds everything that it can do."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def next_value(self) -> Any:
        """Read one value up to its stop."""
        self.stack, self.marks, self.memo = [], [], {}
        while (code := self.take(1)) != b".":
            if code not in _STEPS:
                raise ValueError(f"opcode {code!r} is not one of plain data")
            _STEPS[code](self)
        return self.stack.pop()

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if self.position + count > len(self.data):
            raise ValueError("cut short")
        self.position += count
        return self.data[self.position - count : self.position]

    def number(self, count: int, *, signed: bool = False) -> int:
        """A little-endian number of so many bytes."""
        return int.from_bytes(self.take(count), "little", signed=signed)

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def top(self, count: int) -> tuple[Any, ...]:
        """Take so many values off the stack, oldest first."""
        if not 0 < count <= len(self.stack):
            raise ValueError("stack underflow")
        values = tuple(self.stack[-count:])
        del self.stack[-count:]
        return values

    def since_mark(self) -> tuple[Any, ...]:
        """Take everything above the last mark off the stack."""
        start = self.marks.pop()
        values = tuple(self.stack[start:])
        del self.stack[start:]
        return values

    def line(self) -> str:
        """Text up to the next line end."""
        end = self.data.index(b"\n", self.position)
        return self.take(end + 1 - self.position)[:-1].decode("ascii")

    def text(self) -> str:
        """Text with its length before it."""
        return self.take(self.number(4)).decode()

    def name_global(self) -> None:
        """A global's name, as text, never the thing itself."""
        name = f"{self.line()} {self.line()}"
        if name not in (*_ITEM, _REBUILD, _ORDERED):
            raise ValueError(f"global {name!r} is not part of a state dict")
        self.push(_Global(name))

    def reduce(self) -> None:
        """The two calls of a state dict, by description: an ordered dict, and a dense tensor."""
        function, arguments = self.top(2)
        if function == _Global(_ORDERED) and arguments == ():
            self.push(OrderedDict())
        elif function == _Global(_REBUILD):
            self.push(_describe_tensor(*arguments))
        else:
            raise ValueError(f"a call of {function} is not part of a state dict")

    def persistent(self) -> None:
        """A reference to a storage."""
        (reference,) = self.top(1)
        kind, item, key, _, count, view = reference
        if kind != "storage" or view is not None or not isinstance(item, _Global):
            raise ValueError("a persistent reference that is not a whole storage")
        self.push(_Storage(_ITEM[item.name], key, count))

    def set_items(self, pairs: tuple[Any, ...]) -> None:
        """Fill the dict on top of the stack."""
        self.stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))

    def extend(self, values: tuple[Any, ...]) -> None:
        """Lengthen the list on top of the stack."""
        self.stack[-1].extend(values)

    def drop_attributes(self) -> None:
        """Attributes set on an object (the state dict's metadata) are left out."""
        self.top(1)


def _describe_tensor(storage: Any, start: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    if not isinstance(storage, _Storage) or len(shape) != len(strides) or math.prod(shape) > storage.items:
        raise ValueError("a tensor larger than its storage")
    return _Tensor(storage, start, shape, strides)


_STEPS: Mapping[bytes, Any] = {
    b"\x80": lambda r: r.take(1),
    b"(": lambda r: r.marks.append(len(r.stack)),
    b"}": lambda r: r.push({}),
    b"]": lambda r: r.push([]),
    b")": lambda r: r.push(()),
    b"N": lambda r: r.push(None),
    b"\x88": lambda r: r.push(True),
    b"\x89": lambda r: r.push(False),
    b"K": lambda r: r.push(r.number(1)),
    b"M": lambda r: r.push(r.number(2)),
    b"J": lambda r: r.push(r.number(4, signed=True)),
    b"\x8a": lambda r: r.push(r.number(r.number(1), signed=True)),
    b"X": lambda r: r.push(r.text()),
    b"q": lambda r: r.memo.__setitem__(r.number(1), r.stack[-1]),
    b"r": lambda r: r.memo.__setitem__(r.number(4), r.stack[-1]),
    b"h": lambda r: r.push(r.memo[r.number(1)]),
    b"j": lambda r: r.push(r.memo[r.number(4)]),
    b"t": lambda r: r.push(r.since_mark()),
    b"\x85": lambda r: r.push(r.top(1)),
    b"\x86": lambda r: r.push(r.top(2)),
    b"\x87": lambda r: r.push(r.top(3)),
    b"s": lambda r: r.set_items(r.top(2)),
    b"u": lambda r: r.set_items(r.since_mark()),
    b"e": lambda r: r.extend(r.since_mark()),
    b"c": lambda r: r.name_global(),
    b"R": lambda r: r.reduce(),
    b"Q": lambda r: r.persistent(),
    b"b": lambda r: r.drop_attributes(),
}
