"""Finds the operator behind a target name, in known namespaces only.

A recording may come from a stranger, so a name is never imported or evaluated: it is looked up among
the operators of a fixed set of namespaces, or in a fixed table of plain functions.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

REGISTERED_BY = {
    "aten": None,
    "prims": "torch._prims",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torchao": "torchao.quantization.quant_primitives",
    "dim_order_ops": "executorch.exir.passes.dim_order_ops_registry",
}
"""Namespace to the module whose import registers its operators."""

MEMORY: dict[str, Callable[..., Any]] = {
    "executorch.exir.memory.view": lambda base, size: base.view(size),
    "executorch.exir.memory.alloc": lambda spec: torch.empty(spec[0], dtype=spec[1]),
}
"""What ``to_executorch`` puts into a graph: where an output goes, and a reshape that copies nothing."""
TOUCH_FILES = frozenset({"from_file", "save"})

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f"operator.{name}": getattr(operator, name)
        for name in (
            *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs"),
            *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "getitem"),
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "sqrt", "trunc")},
    "torch.sym_max": torch.sym_max,
    "torch.sym_min": torch.sym_min,
    "torch.sym_float": torch.sym_float,
    "torch.sym_not": torch.sym_not,
}


def find_operator(target: str) -> Callable[..., Any] | None:
    """The callable behind a target such as ``aten.relu.default``; None if it is not a known one.

    A name without an overload stands for the packet, which picks one by its arguments. Operators that open
    files are not known.
    """
    if target in FUNCTIONS or target in MEMORY:
        return FUNCTIONS.get(target) or MEMORY[target]
    namespace, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if namespace not in REGISTERED_BY or not rest:
        return None
    module = REGISTERED_BY[namespace]
    if module is not None:
        importlib.import_module(module)
    packet = getattr(getattr(torch.ops, namespace), name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket) or name in TOUCH_FILES:
        return None
    found = getattr(packet, overload, None) if overload in packet.overloads() else None
    if overload:
        return found if isinstance(found, torch._ops.OpOverload) else None
    return packet


def mutates(target: str) -> bool:
    """Whether an operator writes into its inputs."""
    found = find_operator(target)
    return isinstance(found, torch._ops.OpOverload) and bool(found._schema.is_mutable)


def may_be_random(target: str) -> bool:
    """Whether an operator may draw random numbers; attention with a dropout of zero is one that does not."""
    found = find_operator(target)
    return isinstance(found, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in found.tags
