"""A shadow: a version that gets copies of requests and answers nobody. What is kept in Redis, beside the timeline.

Anybody may have written what lies there: it is decoded within bounds, and unknown fields are passed over.
"""

import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from model_store.timeline import MAX_BY_CHARS, MAX_NUMBER, MAX_REASON_CHARS, NOBODY, Author, Timeline
from schemas.errors import ConfigurationError, InvalidPointerError, PointerConflictError, UnsafeNameError, scrub
from schemas.names import check_name

SHADOW_KEY = "shadow"
"""The kind of its key in Redis."""
MAX_SHADOW_BYTES = 4 * 1024
WHOLE = 100.0
_SPREAD = 0x9E3779B1
"""Odd, and 2^32 by the golden ratio: multiplying by it makes the upper bits depend on all others (Knuth, TAOCP 6.4)."""


@dataclass(frozen=True)
class Shadow:
    """A version that runs beside those that answer. Raises UnsafeNameError and ConfigurationError."""

    version: str
    percent: float = WHOLE
    """The share of the keys whose records are copied."""
    at_ms: int = 0
    """When it was decided, epoch ms."""
    author: Author = field(default=NOBODY)

    def __post_init__(self) -> None:
        check_name("version", self.version)
        if not 0 < self.percent <= WHOLE:
            raise ConfigurationError(f"share {self.percent!r}: more than 0 and at most 100 percent of the keys")

    def takes(self, key: bytes) -> bool:
        """Whether records of a key are copied. A larger share only gains keys.

        The hash is the split's, spread: a share must not fall on the keys of one version of a split.
        """
        return zlib.crc32(key) * _SPREAD % (1 << 32) < self.percent * (1 << 32) / WHOLE


def replace_shadow(present: Shadow | None, wanted: Shadow, timeline: Timeline | None, model: str) -> Shadow:
    """Return `wanted` if it may run now.

    Raises ConfigurationError when nothing is active, when it is what answers, or when a split answers; and
    PointerConflictError when another version is shadowed.
    """
    newest = timeline.latest if timeline is not None else None
    if newest is None:
        raise ConfigurationError(f"model {model}: no version is active, so there is nothing to shadow: activate one")
    names = ", ".join(sorted(newest.split))
    if wanted.version in newest.split:
        raise ConfigurationError(f"version {wanted.version} of {model} answers already: shadow one other than {names}")
    if len(newest.split) > 1:
        raise ConfigurationError(
            f"model {model} is split between {names}: a shadow would be one version too many in memory; activate one"
        )
    if present is not None and present.version != wanted.version:
        by = present.author.by or "somebody"
        raise PointerConflictError(
            f"{by} has {present.version} of {model} shadowed: `headrace models shadow {model} --stop` ends that"
        )
    return wanted


def choose_shadow(shadow: Shadow | None, answering: Collection[str]) -> Shadow | None:
    """Return the shadow unless it is among the versions that answer, or are about to: then it is none any more."""
    return None if shadow is None or shadow.version in answering else shadow


@dataclass(frozen=True)
class _Stored:
    version: str
    percent: float
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)] = 0
    by: Annotated[str, msgspec.Meta(max_length=MAX_BY_CHARS)] = ""
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)] = ""


_DECODER = msgspec.json.Decoder(_Stored)


def encode_shadow(shadow: Shadow) -> bytes:
    """Write a shadow as JSON."""
    author = shadow.author
    return msgspec.json.encode(_Stored(shadow.version, shadow.percent, shadow.at_ms, author.by, author.reason))


def decode_shadow(data: bytes) -> Shadow:
    """Read a shadow that anybody may have written. Raises InvalidPointerError."""
    if len(data) > MAX_SHADOW_BYTES:
        raise InvalidPointerError(f"a shadow of {len(data)} bytes: at most {MAX_SHADOW_BYTES} are allowed")
    try:
        stored = _DECODER.decode(data)
        return Shadow(stored.version, stored.percent, stored.at_ms, Author(stored.by, stored.reason))
    except (msgspec.MsgspecError, ConfigurationError, UnsafeNameError, ValueError, RecursionError) as error:
        raise InvalidPointerError(f"not a shadow: {scrub(str(error), limit=200)}") from None
