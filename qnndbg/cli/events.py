"""Progress for a program, not a person: with ``QNNDBG_PROGRESS=json`` one JSON object a line on stderr."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>."""


def as_lines() -> bool:
    """Whether progress is asked for as lines of JSON.

    An environment variable and no option, since what follows a script on the command line is the script's.
    """
    return os.environ.get("QNNDBG_PROGRESS") == "json"


def end_with_parent() -> None:
    """Be interrupted, as by Ctrl-C, if the program that reads the progress dies, by whatever signal."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def print_event(**event: object) -> None:
    """Tell of one event."""
    print(json.dumps(event), file=sys.stderr, flush=True)
