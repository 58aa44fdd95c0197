"""Loading a version once in a process of its own, to see whether it would serve."""

import select
import time
from collections.abc import Mapping

from schemas.errors import ConfigurationError
from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Loaded, LoadFailed
from stream_workers.supervision.launcher import Launcher
from stream_workers.supervision.model_instance import ModelInstance


def check_model(settings: Settings, version: ServedVersion, environment: Mapping[str, str]) -> Loaded:
    """Find, verify, load and warm up a version just as a worker does. Raises ConfigurationError with the reason."""
    instance = Launcher(settings, environment).start_model(version, time.monotonic())
    try:
        return await_loaded(instance, settings.model.load_timeout_seconds)
    finally:
        instance.child.reap()
        instance.discard()


def await_loaded(instance: ModelInstance, timeout_seconds: float) -> Loaded:
    """Wait until a process that was just started has loaded its version. Raises ConfigurationError with the reason."""
    answer = _await_answer(instance, time.monotonic() + timeout_seconds)
    if isinstance(answer, Loaded):
        return answer
    if answer is not None:
        reason = f"{answer.error_class}: {answer.message}"
    elif (return_code := instance.child.poll()) is not None:
        reason = f"its process ended while loading: {instance.explain(return_code).detail}"
    else:
        reason = f"not loaded within model.load_timeout_seconds ({timeout_seconds:g})"
    raise ConfigurationError(f"model {instance.version.model}, version {instance.version.version}: {reason}")


def _await_answer(instance: ModelInstance, give_up_at: float) -> Loaded | LoadFailed | None:
    poll = select.poll()
    poll.register(instance.child.channel, select.POLLIN)
    while instance.child.is_open and (left := give_up_at - time.monotonic()) > 0:
        poll.poll(left * 1000)
        for message in instance.child.receive():
            return message
    # The channel's end comes a moment before the process's own.
    while instance.child.poll() is None and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return None
