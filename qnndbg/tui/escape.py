"""Esc without a wait: what tells it from the other keys that a terminal begins with the same byte.

Textual waits ``ESCDELAY`` milliseconds for the rest of such a key, 100 if the user does not say. But 8.2.8
looks only each 100 ms whether they are over, whatever was said; here it looks as often as was said.
"""

from __future__ import annotations

import os
import selectors
from importlib import import_module
from types import SimpleNamespace

DELAY = 25
"""Milliseconds. The bytes of a key come together, over SSH too."""


class Soon(selectors.SelectSelector):
    """Waits no longer for input than for the rest of a key."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Of selectors.

        Args:
            timeout: seconds.
        """
        from textual.constants import ESCAPE_DELAY

        return super().select(ESCAPE_DELAY if timeout is None else min(timeout, ESCAPE_DELAY))


def soon() -> None:
    """Tell Textual; before it is imported, for it reads the delay then."""
    os.environ.setdefault("ESCDELAY", str(DELAY))
    driver = import_module("textual.drivers.linux_driver")
    driver.selectors = SimpleNamespace(SelectSelector=Soon, EVENT_READ=selectors.EVENT_READ)  # type: ignore[attr-defined]
