"""How two answers to one request differ. Pure; bounded in what it looks at and in what it returns."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from schemas.shadow_records import MAX_CHANGES, MAX_TEXT_CHARS, LabelChange, ShadowChange

MAX_COMPARED_BYTES = 256 * 1024
"""Longer answers are compared by their bytes alone."""
MAX_PLACES = 20_000
"""So many places are compared; answers that go on beyond count as different."""
_MAX_WHOLE_NUMBER = 1 << 53
_LABEL_DEPTH = 4
_ABSENT = msgspec.UNSET

_Pair = tuple[str, Any, Any]


@dataclass(slots=True)
class Difference:
    """What :class:`schemas.shadow_records.ShadowBody` says of two answers."""

    changed: int = 0
    only_numbers: bool = True
    """Nothing but the values of finite numbers differs."""
    max_difference: float | None = None
    """Largest absolute difference of two finite numbers in one place; None when no two were compared."""
    label: LabelChange | None = None
    changes: list[ShadowChange] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.changed


def compare_answers(active: bytes, shadow: bytes) -> Difference:
    """Compare two answers, byte by byte and then as JSON, value by value: 1 and 1.0 are equal, and NaN is NaN.

    What is no JSON, or is too long, differs as a whole when its bytes do.
    """
    if active == shadow:
        return Difference(max_difference=0.0)
    if max(len(active), len(shadow)) > MAX_COMPARED_BYTES:
        return _differ_as_wholes(f"{len(active)} bytes", f"{len(shadow)} bytes")
    values = []
    for answer in (active, shadow):
        try:
            values.append(msgspec.json.decode(answer))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
            return _differ_as_wholes(_describe_bytes(active), _describe_bytes(shadow))
    return compare_values(values[0], values[1])


def compare_values(active: Any, shadow: Any) -> Difference:
    """Compare two values made of what JSON has: places of one path are compared, those that one lacks are changes."""
    found = Difference()
    for places, (pointer, left, right) in enumerate(_walk(active, shadow)):
        if places == MAX_PLACES:
            _note(found, pointer, "what follows is not compared", "what follows is not compared")
            found.only_numbers = False
            break
        _compare_leaf(found, pointer, left, right)
    if found.equal:
        found.max_difference = 0.0
    else:
        found.label = _compare_labels(active, shadow)
    found.only_numbers = found.only_numbers and not found.equal
    return found


def find_label(answer: Any) -> str | None:
    """Return the text under `label` in an answer, or in the first of its parts that is nested; None without one."""
    for _ in range(_LABEL_DEPTH):
        if isinstance(answer, dict):
            label = answer.get("label")
            if isinstance(label, str):
                return label
            answer = next((value for value in answer.values() if isinstance(value, dict | list)), None)
        elif isinstance(answer, list) and answer:
            answer = answer[0]
        else:
            return None
    return None


def _walk(active: Any, shadow: Any) -> Iterator[_Pair]:
    """Yield the places that hold no further ones in common, in their order; without recursion, whatever the depth."""
    stack: list[Iterator[_Pair]] = [iter([("", active, shadow)])]
    while stack:
        for pointer, left, right in stack[-1]:
            parts = _pair_up(pointer, left, right)
            if parts is not None:
                stack.append(parts)
                break
            yield pointer, left, right
        else:
            stack.pop()


def _pair_up(pointer: str, left: Any, right: Any) -> Iterator[_Pair] | None:
    """The parts of two values of one kind; None when they have none in common to be compared."""
    if isinstance(left, dict) and isinstance(right, dict) and (left or right):
        keys = dict.fromkeys((*left, *right))
        return ((_extend(pointer, str(key)), left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in keys)
    if isinstance(left, list) and isinstance(right, list) and (left or right):
        return (
            (
                _extend(pointer, str(at)),
                left[at] if at < len(left) else _ABSENT,
                right[at] if at < len(right) else _ABSENT,
            )
            for at in range(max(len(left), len(right)))
        )
    return None


def _extend(pointer: str, part: str) -> str:
    """RFC 6901. One that is too long to be told is not made longer."""
    if len(pointer) > MAX_TEXT_CHARS:
        return pointer
    return f"{pointer}/{part.replace('~', '~0').replace('/', '~1')}"


def _compare_leaf(found: Difference, pointer: str, left: Any, right: Any) -> None:
    if _is_number(left) and _is_number(right):
        is_same = left == right or (left != left and right != right)  # noqa: PLR0124 - NaN, also beside what no float holds
        distance = 0.0 if is_same else _measure(left, right)
        if distance is not None:
            found.max_difference = max(found.max_difference or 0.0, distance)
        if not is_same:
            _note(found, pointer, left, right)
            found.only_numbers = found.only_numbers and distance is not None
    elif type(left) is not type(right) or left != right:
        _note(found, pointer, left, right)
        found.only_numbers = False


def _measure(left: float, right: float) -> float | None:
    """The distance of two numbers; None when it is not a finite one."""
    try:
        distance = float(abs(left - right))
    except OverflowError:
        return None
    return distance if math.isfinite(distance) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _note(found: Difference, pointer: str, left: Any, right: Any) -> None:
    found.changed += 1
    if len(found.changes) < MAX_CHANGES:
        found.changes.append(ShadowChange(_cut(pointer), _shorten(left), _shorten(right)))


def _shorten(value: Any) -> Any:
    """What a change shows of a value."""
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, list | dict):
        return f"{'list' if isinstance(value, list) else 'object'} of {len(value)}"
    if isinstance(value, int) and abs(value) > _MAX_WHOLE_NUMBER:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…"


def _compare_labels(active: Any, shadow: Any) -> LabelChange | None:
    left, right = find_label(active), find_label(shadow)
    return None if left is None or right is None or left == right else LabelChange(_cut(left), _cut(right))


def _describe_bytes(answer: bytes) -> str:
    return _cut(answer.decode(errors="replace"))


def _differ_as_wholes(active: str, shadow: str) -> Difference:
    return Difference(changed=1, only_numbers=False, changes=[ShadowChange("", active, shadow)])
