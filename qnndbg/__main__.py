"""``python -m qnndbg``: the command line, where the entry point is not on the PATH."""

from __future__ import annotations

import sys

from qnndbg.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
