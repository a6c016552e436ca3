"""Sends what native code writes somewhere else: to a log, where it is noise of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STANDARD = (1, 2)


def redirect(log: Path) -> list[int]:
    """Send descriptors 1 and 2 to the end of a file; returns what :func:`restored` takes."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [_duplicate(standard) for standard in STANDARD]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for standard in STANDARD:
        os.dup2(descriptor, standard)
    os.close(descriptor)
    return saved


def restored(saved: list[int]) -> None:
    """Undo :func:`redirect`."""
    sys.stdout.flush()
    sys.stderr.flush()
    for standard, descriptor in zip(STANDARD, saved, strict=True):
        os.dup2(descriptor, standard)
        os.close(descriptor)


def _duplicate(descriptor: int) -> int:
    """A descriptor for the same; of the null device if the caller has closed it."""
    try:
        return os.dup(descriptor)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


@contextmanager
def redirected(log: Path) -> Iterator[None]:
    """Send them there for the time of the block."""
    saved = redirect(log)
    try:
        yield
    finally:
        restored(saved)
