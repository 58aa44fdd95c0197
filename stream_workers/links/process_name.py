"""A process's short name, as `ps` and `top` show it."""

import ctypes

_PR_SET_NAME = 15
_MAX_BYTES = 15


def member_name(slot: str) -> str:
    """The name of the member that holds a slot; a spare that holds none has not got such a name."""
    return f"hr-{slot[-(_MAX_BYTES - 3) :]}"


def set_process_name(name: str) -> None:
    """Name this process. Main thread only; systems without such names go without."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_NAME, name.encode()[:_MAX_BYTES], 0, 0, 0)
