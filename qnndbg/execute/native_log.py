"""Owns what is read out of a worker's log: the last words of native code, and faults known by their text.

It reads the end of the log only, and only what was written after a given offset, since workers append.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

TAIL = 256 * 1024
"""Bytes read, from the end."""
RECENT = 10
"""Lines before the end among which an error counts as the cause; imports warn of failures that are none."""
LONGEST = 200
"""Characters of a quoted line."""

_TROUBLE = re.compile(r"\b(error|fail|fatal|assert|abort|terminate|exception|pure virtual)|what\(\)", re.I)
_NOISE = re.compile(r"W\d{4} |Failed to load \S*torchao|Could not load this library: \S*torchao")
"""Warnings that importing torch and torchao always leaves."""
_PYTHON_WARNING = re.compile(r"^\S[^\n]*:\d+: \w*Warning: [^\n]*\n(?:[ \t]+[^\n]*(?:\n|\Z))?", re.M)
"""A warning and the source line below it, which often speaks of errors without being one."""
_PYTHON_STACK = "Fatal Python error:"  # faulthandler's, after whatever native code had to say
_QNN_ERROR = re.compile(r"\[ERROR\] \[Qnn ExecuTorch\]:([^\r\n]*)")
_BORDER_OP = re.compile(r'"\w*(de)?quantize_per_')
_REMEDIES = (
    # QNN 2.47, 2.48, 2.50 and 2.51 reject a device option that ExecuTorch 1.4 and 1.5 set.
    ("unknown custom config socModel", "pip install onnxruntime-qnn==2.5.0"),
)


def last_words(log: Path, start: int = 0) -> str:
    """Return the last line that speaks of an error, else the last line, else nothing.

    Args:
        log: the file, which may be missing.
        start: offset in bytes at which the worker in question began to write.
    """
    text = _tail(log, start).split(_PYTHON_STACK)[0]
    lines = [line.strip() for line in re.split(r"[\r\n]+", _PYTHON_WARNING.sub("", text)) if line.strip()]
    lines = [line for line in lines if not _NOISE.match(line)]
    trouble = [line for line in lines[-RECENT:] if _TROUBLE.search(line)]
    return ([*lines, *trouble] or [""])[-1][:LONGEST]


def known_remedy(log: Path, start: int = 0) -> str:
    """Return what fixes a fault that the log shows and that is known, else nothing.

    Args:
        log: the file, which may be missing.
        start: offset in bytes at which the worker in question began to write.
    """
    text = _tail(log, start)
    return next((remedy for words, remedy in _REMEDIES if words in text), "")


def qnn_complaint(log: Path, start: int = 0) -> str:
    """Return what QNN says is wrong with a graph, else nothing; best a line that names an op of the model.

    Args:
        log: the file, which may be missing.
        start: offset in bytes at which the worker in question began to write.
    """
    said = [line.strip().removeprefix("<E>").strip() for line in _QNN_ERROR.findall(_tail(log, start))]
    named = [line for line in said if '"' in line]
    users = [line for line in named if not _BORDER_OP.search(line)]
    return next(iter((*users, *named, *said)), "")[:LONGEST]


def _tail(log: Path, start: int) -> str:
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(start, file.seek(0, os.SEEK_END) - TAIL))
        return file.read().decode(errors="replace")
