"""Progress for a program, not a person: with ``QNNDBG_PROGRESS=json`` one JSON object a line on stderr."""

from __future__ import annotations

import json
import os
import sys


def as_lines() -> bool:
    """Whether progress is asked for as lines of JSON.

    An environment variable and no option, since what follows a script on the command line is the script's.
    """
    return os.environ.get("QNNDBG_PROGRESS") == "json"


def print_event(**event: object) -> None:
    """Tell of one event."""
    print(json.dumps(event), file=sys.stderr, flush=True)
