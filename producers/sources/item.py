"""What a source yields: one item per record, or the reason why there is none."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One payload on its way to Kafka. `sequence` counts the records of its stream from 0, faulty ones included."""

    sequence: int
    payload: bytes
    content_type: str
    label: str
    """What a person would call it: a file name, a row number, the value of an id column."""
    media_seconds: float | None = None
    """Time since the start of the recording, when the source has a clock of its own."""


@dataclass(frozen=True)
class ItemError:
    """One record that could not be read. The source goes on after it unless `final`."""

    sequence: int
    label: str
    message: str
    final: bool = False


Source = Iterator[Item | ItemError]
"""Yields in order; faults are values, so one bad record never ends a stream."""
