"""A worker of the sweep that lowers nothing; it dies where a test says so, or takes too long."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any


def work(payload: dict[str, Any], report: Callable[[dict[str, object]], None]) -> None:
    """Each test has three lowerings; ``fatal`` dies at the second, ``endless`` at the last."""
    for number, name in enumerate(payload["tests"]):
        first = payload["first"] if number == 0 else 0
        for case in range(first, 3):
            report({"step": f"lowering {case}", "begun": {"test": name, "case": case, "model": "Net"}})
            if name == payload["fatal"] and case == 1:
                os.kill(os.getpid(), signal.SIGSEGV)
            if name == payload["endless"] and case == 2:
                time.sleep(payload["limit"])
                os._exit(1)
            report({"row": {"test": name, "case": case, "status": "recorded", "model": "Net"}})
        report({"ended": name})
