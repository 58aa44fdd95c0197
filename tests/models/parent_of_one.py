"""A child that starts one of its own, writes down which, and ends."""

import os
import subprocess
from pathlib import Path

if __name__ == "__main__":
    Path(os.environ["GRANDCHILD"]).write_text(str(subprocess.Popen(["sleep", "600"]).pid))
