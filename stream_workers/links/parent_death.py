"""No orphans: a child that asks for it is killed by the kernel the moment its parent is gone."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have this process killed when `parent`, which must be its parent, ends in any way; exit now if it has ended.

    The kernel watches the *thread* that started the child, so children must be started from a thread that lives on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # It may have ended before the call above, in which case nobody would tell.
    if os.getppid() != parent:
        os._exit(1)
