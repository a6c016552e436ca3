"""What is judged: a recording's answer, the baseline's, and how the two differ."""

from __future__ import annotations

from dataclasses import dataclass

from qnndbg.gate.policy import Policy
from qnndbg.model.diff import Diff
from qnndbg.model.recording import Manifest
from qnndbg.model.result import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a judgement rests on."""

    policy: Policy
    now: Comparison
    page: Manifest
    before: Comparison | None = None
    """The baseline's answer; None if the policy alone is asked."""
    page_before: Manifest | None = None
    diff: Diff | None = None
    """From the baseline to the recording."""
