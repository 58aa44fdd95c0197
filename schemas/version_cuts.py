"""The record of one cut on the control topic: from which offset on a partition's records meet a switch.

Key `MODEL/TOPIC/PARTITION/EPOCH`, so that compaction keeps every cut; value JSON. Whoever may write to the topic may
write anything, so reading believes nothing.
"""

import re
from typing import Annotated

import msgspec

from schemas.errors import EnvelopeError, UnsafeNameError
from schemas.names import check_name

MAX_CUT_BYTES = 1024
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_WHOLE_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,15})\Z")
_MAX_NUMBER = 1 << 53


class VersionCut(msgspec.Struct, frozen=True, gc=False, order=True):
    """Records of the partition at or after `offset` meet the decision of `epoch`, or a later one."""

    model: str
    topic: str
    partition: int
    epoch: int
    offset: int
    at_ms: int
    """When the cut was made: epoch milliseconds of the member's clock."""


class CutBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a cut; its key names the model, the partition and the epoch once more."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=_MAX_NUMBER, description="The first offset under the epoch.")]
    epoch: Annotated[int, msgspec.Meta(ge=1, le=_MAX_NUMBER, description="Of the decision, as in the key.")]
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=_MAX_NUMBER, description="When it was made: epoch milliseconds.")]


_decode_body = msgspec.json.Decoder(CutBody).decode


def encode_cut(cut: VersionCut) -> tuple[bytes, bytes]:
    """Return key and value."""
    key = f"{cut.model}/{cut.topic}/{cut.partition}/{cut.epoch}"
    return key.encode(), msgspec.json.encode(CutBody(cut.offset, cut.epoch, cut.at_ms))


def decode_cut(key: bytes | None, value: bytes | None) -> VersionCut:
    """Read one record of a control topic. Raises EnvelopeError that says what is wrong with it."""
    if len(key or b"") + len(value or b"") > MAX_CUT_BYTES:
        raise EnvelopeError(f"not a cut: more than {MAX_CUT_BYTES} bytes")
    try:
        model, topic, partition, epoch = (key or b"").decode().split("/")
        check_name("model name", model)
        body = _decode_body(value or b"")
    except (ValueError, UnsafeNameError, msgspec.MsgspecError) as error:
        raise EnvelopeError(f"not a cut: key {(key or b'')[:80]!r}: {error}") from None
    if not _TOPIC.match(topic):
        raise EnvelopeError(f"not a cut: topic {topic[:80]!r} is not the name of a topic")
    cut = VersionCut(model, topic, _number(partition), _number(epoch), body.offset, body.at_ms)
    if cut.partition > _MAX_NUMBER:
        raise EnvelopeError(f"not a cut: partition {cut.partition} is more than {_MAX_NUMBER}")
    if body.epoch != cut.epoch:
        raise EnvelopeError(f"not a cut: epoch {body.epoch} under a key with epoch {cut.epoch}")
    return cut


def _number(text: str) -> int:
    if not _WHOLE_NUMBER.match(text):
        raise EnvelopeError(f"not a cut: {text[:40]!r} is not a whole number")
    return int(text)
