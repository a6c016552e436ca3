"""Why the partitioner leaves an op on the CPU, in its own words and in those of QNN's validator."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from executorch.backends.qualcomm.partition.common_defs import (
    not_supported_operator,
    to_be_implemented_operator,
)
from torch.export import ExportedProgram

from qnndbg.capture.targets import target_name
from qnndbg.model.recording import Fallback

STDERR = 2
_DELEGATE = "higher_order.executorch_call_delegate"
_NO_OPS = frozenset({_DELEGATE, "operator.getitem"})


class Delegation(NamedTuple):
    """What became of a method's program."""

    partitions: int
    fallbacks: tuple[Fallback, ...]


def delegation_of(program: ExportedProgram, method: str, refused: Sequence[Fallback]) -> Delegation:
    """Read a program that ``to_backend`` made.

    Args:
        program: with delegates in it.
        method: its name.
        refused: what the partitioner was told of single ops; one that it could take may stay as well.
    """
    reasons = {fallback.node: fallback.reason for fallback in refused}
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    kept = [node for node in calls if target_name(node.target) not in _NO_OPS]
    delegates = [node for node in calls if target_name(node.target) == _DELEGATE]
    return Delegation(
        partitions=len(delegates),
        fallbacks=tuple(
            Fallback(
                node=node.name,
                op=target_name(node.target),
                reason=reasons.get(node.name, "no partition could hold it"),
                method=method,
            )
            for node in kept
        ),
    )


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
