"""Sends what native code writes somewhere else: to a log, where it is noise of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STANDARD = (1, 2)


def redirect(log: Path) -> None:
    """Send descriptors 1 and 2 to the end of a file for good."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for standard in STANDARD:
        os.dup2(descriptor, standard)
    os.close(descriptor)


@contextmanager
def redirected(log: Path) -> Iterator[None]:
    """Send them there for the time of the block."""
    saved = [os.dup(standard) for standard in STANDARD]
    redirect(log)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for standard, descriptor in zip(STANDARD, saved, strict=True):
            os.dup2(descriptor, standard)
            os.close(descriptor)
