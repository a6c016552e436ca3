"""Which axes of a program's inputs have a free length."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._sympy.numbers import IntInfinity


def free_axes(program: ExportedProgram) -> list[str]:
    """The free axes of the inputs, each with its range, as in ``axis 0 of input 1: 1 to 16``."""
    inputs = [n for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]
    return [
        f"axis {axis} of input {number}: {_range(program, length)}"
        for number, node in enumerate(inputs)
        if isinstance(value := node.meta.get("val"), torch.Tensor)
        for axis, length in enumerate(value.shape)
        if isinstance(length, torch.SymInt)
    ]


def _range(program: ExportedProgram, length: Any) -> str:
    """From the constraints; the expression itself for a length that follows from another one."""
    expression = length.node.expr
    found = program.range_constraints.get(expression)
    if found is None:
        return str(expression)
    return f"{found.lower} or more" if found.upper == IntInfinity() else f"{found.lower} to {found.upper}"
