"""Who switches versions from this command line, and by which clock."""

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model_store.switch_contract import SwitchClock
    from model_store.timeline import Author


def find_author(reason: str) -> "Author":
    """Name user and host. Raises ConfigurationError for a reason that is too long or not on one line."""
    import getpass  # noqa: PLC0415 - keeps --help instant
    import socket  # noqa: PLC0415

    from model_store.timeline import MAX_BY_CHARS, Author  # noqa: PLC0415
    from model_store.worker_reports import clean_text  # noqa: PLC0415

    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return Author(clean_text(f"{user}@{socket.gethostname()}", MAX_BY_CHARS), reason)


def real_clock() -> "SwitchClock":
    """The clock of this machine."""
    from model_store.switch_contract import SwitchClock  # noqa: PLC0415 - keeps --help instant

    return SwitchClock(lambda: time.time_ns() // 1_000_000, time.monotonic, time.sleep)
