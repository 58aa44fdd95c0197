"""The epoch that a partition's records have reached, as text beside its committed offset. Pure.

A record is never answered under an older decision than a record before it, and that must hold for the next owner too:
so the floor travels where the offset does.
"""

import re

_FLOOR = re.compile(r"headrace:1:e=(0|[1-9][0-9]{0,15})\Z")


def encode_floor(epoch: int) -> str:
    """Write the metadata of a committed offset: the epoch that the last record below it met."""
    return f"headrace:1:e={epoch}"


def decode_floor(metadata: str | None) -> int | None:
    """Read it; 0 where nothing is written, None for what is none of ours."""
    if not metadata:
        return 0
    match = _FLOOR.match(metadata) if len(metadata) <= 64 else None
    return None if match is None else int(match.group(1))
