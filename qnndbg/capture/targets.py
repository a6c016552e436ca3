"""Names of operators, the same for ATen and for the edge dialect."""

from __future__ import annotations

import functools

import torch


@functools.lru_cache(maxsize=4096)
def target_name(target: object) -> str:
    """The name under which ``execute.reference`` finds an operator again."""
    if not isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        target = getattr(target, "_op", target)  # what an operator of the edge dialect wraps
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket, str)):
        return str(target)
    module = str(getattr(target, "__module__", "")).removeprefix("_")
    return f"{module}.{getattr(target, '__name__', type(target).__name__)}"
