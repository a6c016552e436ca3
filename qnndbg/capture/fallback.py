"""Why the partitioner leaves an op on the CPU, in its own words and in those of QNN's validator."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from executorch.backends.qualcomm.partition.common_defs import (
    not_supported_operator,
    to_be_implemented_operator,
)

from qnndbg.capture.targets import target_name
from qnndbg.model.recording import Fallback

STDERR = 2


def judged(ask: Callable[[], bool], support: Any, node: torch.fx.Node) -> tuple[bool, Fallback | None]:
    """Ask whether QNN takes a node, and why not if it does not.

    Args:
        ask: the original question; native code answers on descriptor 2, where all it says still goes.
        support: the ``QnnOperatorSupport`` that is asked.
        node: the node.
    """
    if node.op != "call_function":
        return ask(), None
    supported, said = _listened(ask)
    if supported:
        return True, None
    return False, Fallback(node=node.name, op=target_name(node.target), reason=_reason(support, node, said))


def _reason(support: Any, node: torch.fx.Node, said: str) -> str:
    name = getattr(node.target, "__name__", str(node.target))
    if node.target in not_supported_operator:
        return "on the backend's list of unsupported ops"
    if node.target in to_be_implemented_operator:
        return "on the backend's list of ops to be implemented"
    if node.name in support.skip_node_id_set or name in support.skip_node_op_set:
        return "on the caller's skip list"
    if name not in support.node_visitors:
        return "the backend has no builder for it"
    return f"QNN's validator refused it: {said}" if said else "its builder made no QNN op"


def _listened(ask: Callable[[], bool]) -> tuple[bool, str]:
    """The answer, and the last error that was written to descriptor 2 meanwhile."""
    with tempfile.TemporaryFile() as heard:
        saved = os.dup(STDERR)
        os.dup2(heard.fileno(), STDERR)
        try:
            answer = ask()
        finally:
            os.dup2(saved, STDERR)
            heard.seek(0)
            said = heard.read()
            os.write(saved, said) if said else None
            os.close(saved)
    errors = [line for line in said.decode(errors="replace").splitlines() if "[ERROR]" in line]
    return answer, errors[0].rpartition("]:")[2].strip().removeprefix("<E>").strip() if errors else ""
