"""Lowers nothing, and ends with a message."""

from __future__ import annotations

import sys
from pathlib import Path

import neighbour  # type: ignore[import-not-found]  # found once this is run as a script

if __name__ == "__main__":
    sys.stdout.write(f"script: {neighbour.WORD} in {Path.cwd().name} from {Path(sys.path[0]).name}\n")
    sys.exit("script: refused")
