"""How much of an output's error each step makes: the quantiser, the passes, the backend.

Each rung of the ladder is held against the rung before. Independent errors add up in their squares, so the
share of a step is its squared relative error over the sum of all; of a step with several rungs, the sum of
theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from qnndbg.analyze.verdict import STEPS
from qnndbg.model.result import Rung


class Part(Struct, frozen=True, kw_only=True):
    """What one step adds to the error of one output."""

    step: str
    relative: float | None
    """L2 norm of its error over that of the output; None if it was not measured, infinite for NaN."""
    share: float | None
    """Of the squared error of all steps; None where that is not finite."""


def budget(rungs: Iterable[Rung]) -> tuple[Part, ...]:
    """Split the error of one output over the steps that were measured.

    Args:
        rungs: of one output.
    """
    powers: dict[str, float] = {}
    for rung in rungs:
        step = next((name for name, names in STEPS.items() if rung.name in names), "")
        error = rung.against_previous
        if step and error is not None:
            relative = math.inf if error.nonfinite or error.relative_l2 is None else error.relative_l2
            powers[step] = powers.get(step, 0.0) + relative**2
    total = sum(powers.values())
    return tuple(
        Part(
            step=step,
            relative=math.sqrt(powers[step]) if step in powers else None,
            share=powers[step] / total if step in powers and total and math.isfinite(total) else None,
        )
        for step in STEPS
        if step in powers or step != "input"
    )
