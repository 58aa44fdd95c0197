"""Records with JSON payloads, as they lie in a batch."""

import json
from typing import Any

from schemas.records import JSON, Request
from stream_workers.batching.work import WorkItem


def item(number: int, payload: Any) -> WorkItem:
    """A record whose payload is JSON, or bytes as they are."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    request = Request(
        id=f"r-{number}",
        topic="t",
        partition=0,
        offset=number,
        timestamp_ms=0,
        key=None,
        payload=data,
        content_type=JSON,
    )
    return WorkItem(request, 1, 0.0, "s", len(data))
