"""Inputs and outputs of the final program, as its caller sees them."""

from __future__ import annotations

from typing import Any

from executorch.exir.scalar_type import ScalarType
from executorch.exir.schema import Bool, Double, Int, String, Tensor

from qnndbg.model.recording import Method, Port

DTYPES = {
    ScalarType.BYTE: "uint8",
    ScalarType.CHAR: "int8",
    ScalarType.SHORT: "int16",
    ScalarType.INT: "int32",
    ScalarType.LONG: "int64",
    ScalarType.HALF: "float16",
    ScalarType.FLOAT: "float32",
    ScalarType.DOUBLE: "float64",
    ScalarType.BOOL: "bool",
    ScalarType.BFLOAT16: "bfloat16",
}
LITERALS = {Bool: "bool_val", Int: "int_val", String: "string_val"}
"""What holds the value of an input that is no tensor."""


def methods_of(emitted: Any) -> tuple[Method, ...]:
    """The methods of an emitted program.

    Args:
        emitted: ``ExecutorchProgramManager``, or ``ExecutorchProgram`` of the deprecated path.
    """
    program = emitted.executorch_program if hasattr(emitted, "executorch_program") else emitted.program
    return tuple(
        Method(
            name=plan.name,
            inputs=tuple(_port(plan.values[i].val) for i in plan.inputs),
            fixed=tuple(
                _literal(plan.values[i].val) for i in plan.inputs if _port(plan.values[i].val) is None
            ),
            outputs=tuple(_port(plan.values[i].val) for i in plan.outputs),
        )
        for plan in program.execution_plan
        if plan.delegates or plan.inputs
    )


def _literal(value: Any) -> bool | int | float | str | None:
    """The value of an input that is no tensor; None for None and for what no input can be."""
    if isinstance(value, Double):
        return float(value.double_val)  # a word where it is not finite
    name = LITERALS.get(type(value), "")
    literal: bool | int | str | None = getattr(value, name, None)
    return literal


def _port(value: Any) -> Port | None:
    if not isinstance(value, Tensor):
        return None
    dtype = DTYPES.get(value.scalar_type, value.scalar_type.name.lower())
    return Port(shape=tuple(int(n) for n in value.sizes), dtype=dtype)
