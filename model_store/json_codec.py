"""JSON bytes to values, strictly: no duplicate key, no NaN, no number out of range, no nesting beyond a limit."""

import re
from typing import Any

import msgspec

from schemas.errors import InvalidInputError, PayloadTooLargeError, scrub

# Possessive and open-ended, so that a hostile string costs one pass and never a backtrack.
_STRING = re.compile(rb'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_BRACES_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_decode = msgspec.json.Decoder().decode


def decode_json(data: bytes, max_depth: int) -> Any:
    """Return the Python value of one JSON text in UTF-8.

    Raises PayloadTooLargeError for nesting deeper than `max_depth` (checked before anything is built) and
    InvalidInputError for everything that is not strict JSON, a key given twice in one object included.
    """
    objects = data.count(b"{")
    if objects == 0 and data.count(b"[") <= max_depth:
        return _parse(data)
    plain = _STRING.sub(b"", data) if b'"' in data else data
    if plain.count(b"[") + plain.count(b"{") > max_depth:
        _check_depth(plain, max_depth)
    value = _parse(data)
    pairs = plain.count(b":")
    if pairs > 1 and not _has_pairs(value, pairs):
        raise InvalidInputError("not valid JSON: a key is given twice in one object")
    return value


def _parse(data: bytes) -> Any:
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"not valid JSON: {scrub(str(error), limit=200)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"not valid JSON: {scrub(type(error).__name__)}") from None


def _check_depth(plain: bytes, max_depth: int) -> None:
    """Peel innermost pairs off, one level a turn: as many C passes as the nesting is deep, at most `max_depth`."""
    brackets = plain.translate(_BRACES_AS_BRACKETS, _NOT_BRACKETS)
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise PayloadTooLargeError(f"JSON is nested deeper than {max_depth} levels, or its brackets do not match")


def _has_pairs(value: Any, expected: int) -> bool:
    """Whether the objects inside `value` hold `expected` pairs in all: fewer means that a key came twice."""
    found, level = 0, [value]
    while level:
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                found += len(item)
                below.extend(item.values())
            elif type(item) is list:
                below.extend(item)
        if found >= expected:
            return True
        level = below
    return False
