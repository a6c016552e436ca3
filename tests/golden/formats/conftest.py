"""Golden files of the formats; ``UPDATE_GOLDEN=1 pytest tests/golden/formats`` rewrites them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[str, str], None]


@pytest.fixture
def exactly() -> Golden:
    """Compare a text with a file byte for byte."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / name
        if "UPDATE_GOLDEN" in os.environ:
            path.write_bytes(text.encode())
        assert text.encode() == path.read_bytes()

    return check
