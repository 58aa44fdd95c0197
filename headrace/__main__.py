"""`python -m headrace` is the `headrace` command."""

import sys

from headrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
