"""A supervisor over driven members: `python -m tests.models.driven_worker SETTINGS_FILE`."""

import os
import sys
from pathlib import Path

from schemas.configuration import restore_settings
from stream_workers.logs import set_up_logs
from stream_workers.supervision.supervisor import supervise

if __name__ == "__main__":
    given = restore_settings(Path(sys.argv[1]).read_bytes())
    set_up_logs(given.log)
    sys.exit(supervise(given, os.environ, "tests.models.driven_member"))
