"""Why a model process ended, in the codes that a dead letter may carry."""

import signal
from pathlib import Path
from typing import NamedTuple

VMSTAT = Path("/proc/vmstat")


class ExitReason(NamedTuple):
    """A code of :class:`stream_workers.pipeline.contract.BatchLost` and words for a person."""

    code: str
    detail: str


def explain_exit(return_code: int, kill_code: str | None, out_of_memory_kills: int | None) -> ExitReason:
    """Explain a return code as `Popen` gives it.

    `kill_code` is our own reason when we killed it; `out_of_memory_kills` is how many the kernel made since the process
    began, None where it does not say: then a SIGKILL that is not ours is taken for one.
    """
    if return_code >= 0:
        return ExitReason(kill_code or "model_crashed", f"exit code {return_code}")
    name = _signal_name(-return_code)
    if kill_code is not None:
        return ExitReason(kill_code, f"killed by its supervisor ({name})")
    if -return_code == signal.SIGKILL and out_of_memory_kills != 0:
        return ExitReason("model_out_of_memory", f"killed by the kernel ({name}), out of memory")
    return ExitReason("model_crashed", f"killed by {name}")


def count_out_of_memory_kills() -> int | None:
    """Return how many processes the kernel has killed for want of memory; None when it does not say."""
    try:
        lines = VMSTAT.read_text().splitlines()
    except OSError:
        return None
    counts = [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return counts[0] if counts else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
