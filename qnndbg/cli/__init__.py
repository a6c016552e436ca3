"""The command line: the only place that wires adapters to the core, prints, and sets exit codes.

One module a verb, each with ``add_parser(subparsers)``, which declares its arguments, and
``run(args) -> int``, which returns the exit code. Results go to stdout, notes and progress to stderr.
"""

from __future__ import annotations

import argparse
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What ``add_parser`` of a verb gets."""
