"""Builders with defaults: a test names only what it varies."""

from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.records import JSON, Request, Timings
from schemas.settings import LimitSettings
from stream_workers.batching.work import Answer, ServedVersion, WorkItem
from stream_workers.links.messages import LoadOrder

VERSION = ServedVersion("m", "v1", 1)
TIMINGS = Timings(1.0, 2.0, 4)


def load_order(**varied: Any) -> LoadOrder:
    base = LoadOrder(
        version=VERSION,
        store_root="/store",
        cache_dir="/cache",
        cache_bytes=1,
        classes={"c": "x:Y"},
        device="cpu",
        threads=1,
        non_finite="reject",
        limits=LimitSettings().model_dump_json().encode(),
        max_batch_size=4,
        slots=2,
        slot_bytes=100,
    )
    return msgspec.structs.replace(base, **varied)


def request(
    offset: int = 0,
    partition: int = 0,
    *,
    topic: str = "requests",
    key: bytes | None = b"k",
    payload: bytes | None = b"{}",
    content_type: str = JSON,
    deadline_ms: int = 0,
    headers: Sequence[tuple[str, bytes]] = (),
    traceparent: str = "",
    timestamp_ms: int = 1000,
) -> Request:
    return Request(
        id=f"{topic}-{partition}-{offset}",
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=key,
        payload=payload,
        content_type=content_type,
        deadline_ms=deadline_ms,
        headers=tuple(headers),
        traceparent=traceparent,
    )


def item(
    offset: int = 0,
    partition: int = 0,
    *,
    at: float = 0.0,
    assignment: int = 1,
    shape: str = "s",
    size: int = 10,
    deadline_ms: int = 0,
    key: bytes | None = b"k",
    priority: int = 0,
    cost: float = 0.0,
) -> WorkItem:
    made = request(
        offset, partition, topic=f"lane-{priority}" if priority else "requests", key=key, deadline_ms=deadline_ms
    )
    return WorkItem(made, assignment, at, shape, size, priority, cost)


def answered(work_item: WorkItem) -> WorkItem:
    work_item.outcome = Answer(b"1", VERSION, TIMINGS)
    return work_item
