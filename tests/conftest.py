"""What all tests share: the emulator's marker, and one way to draw random examples."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

EMULATOR, REFERENCE, SWEEP = (Path(__file__).parent / name for name in ("emulator", "reference", "sweep"))
HAS_TORCH = importlib.util.find_spec("torch") is not None

# No deadline: a shared machine stalls. CI draws the same examples each time.
settings.register_profile("qnndbg", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("qnndbg")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs torch where the extra ``qnn`` is not installed."""
    return True if collection_path in {EMULATOR, REFERENCE, SWEEP} and not HAS_TORCH else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder, so that no test of the emulator can be forgotten."""
    for item in items:
        if {EMULATOR, SWEEP} & {*item.path.parents}:
            item.add_marker(pytest.mark.emulator)


def pytest_report_header() -> str:
    """Say what is left out."""
    return "emulator and reference tests: " + (
        "included" if HAS_TORCH else "left out, since torch is not installed"
    )
