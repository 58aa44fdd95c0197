"""A process that asks a model class for its example, and ends: user code may import torch, which stays out of ours.

`python -m stream_workers.profiling.example_process DESCRIPTOR PARENT`, started by :func:`read_example` only.
"""

import select
import sys
import time
from collections.abc import Mapping

import msgspec

from schemas.errors import ConfigurationError, PipelineError, scrub
from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.links.control_channel import ControlChannel
from stream_workers.links.framing import LinkClosedError
from stream_workers.links.messages import Message
from stream_workers.links.parent_death import die_with_parent
from stream_workers.profiling.samples import Sample
from stream_workers.supervision.child_process import ChildProcess
from stream_workers.supervision.launcher import without_settings

MODULE = "stream_workers.profiling.example_process"


class ExampleOrder(Message, frozen=True, tag="example_order"):
    """Which version's example is wanted."""

    version: ServedVersion
    store_root: str
    classes: dict[str, str]
    device: str


class Example(Message, frozen=True, tag="example"):
    """The example; an empty content type stands for none, and `problem` says why there can be none."""

    content_type: str
    payload: bytes
    problem: str


_order_decoder = msgspec.msgpack.Decoder(ExampleOrder)
_example_decoder = msgspec.msgpack.Decoder(Example)


def read_example(settings: Settings, version: ServedVersion, environment: Mapping[str, str]) -> Sample | None:
    """Return the example of a version's model class, None when it has none.

    Raises ConfigurationError when the version or its class cannot be found, or the class fails or hangs.
    """
    child: ChildProcess[Example] = ChildProcess.start(MODULE, _example_decoder, without_settings(environment))
    model = settings.model
    try:
        order = ExampleOrder(version, settings.store.location, dict(model.classes), model.device)
        child.channel.send(order)
        give_up_at = time.monotonic() + model.load_timeout_seconds
        found: list[Example] = []
        while child.is_open and not found and (left := give_up_at - time.monotonic()) > 0:
            child.channel.wait(left)
            found = child.receive()
    finally:
        child.reap()
    name = f"model {version.model}, version {version.version}"
    if not found:
        raise ConfigurationError(f"{name}: its class gave no example and no error; give --data")
    if found[0].problem:
        raise ConfigurationError(f"{name}: {found[0].problem}")
    return Sample(found[0].payload, found[0].content_type) if found[0].content_type else None


def main(arguments: list[str]) -> int:
    """Answer one order."""
    descriptor, parent = (int(argument) for argument in arguments)
    die_with_parent(parent)
    channel = ControlChannel.adopt(descriptor, _order_decoder)
    try:
        orders: list[tuple[ExampleOrder, list[int]]] = []
        while not orders:
            channel.wait(60.0)
            orders = channel.receive()
        channel.send(_answer(orders[0][0]))
        while channel.has_unsent:
            select.select([], [channel], [], 1.0)
            channel.flush()
        channel.wait(60.0)  # until the parent has read it and lets go
    except LinkClosedError:
        pass
    return 0


def _answer(order: ExampleOrder) -> Example:
    from model_store.inference_model import ModelContext  # noqa: PLC0415 - its errors are to be answered
    from model_store.registry import resolve_class  # noqa: PLC0415
    from model_store.store_opening import open_location  # noqa: PLC0415

    try:
        version = order.version
        manifest = open_location(order.store_root).resolve(version.model, version.version).manifest
        options = dict(manifest.options)
        context = ModelContext(manifest.labels, options, order.device, manifest.name, manifest.version)
        payload = resolve_class(manifest.model_class, order.classes)(context).example()
        if payload is None:
            return Example("", b"", "")
        return Example(payload.content_type, bytes(payload.data), "")
    except PipelineError as error:
        return Example("", b"", str(error))
    except Exception as error:  # noqa: BLE001 - user code
        return Example("", b"", scrub(f"example() raised {type(error).__name__}: {error}"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
