"""Finds the node that the lowering was at when it failed, in the frames that the exception went through."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch.export import ExportedProgram

from qnndbg.capture.targets import target_name
from qnndbg.model.recording import FailingNode

FEW = 3
"""A program of so few ops is named by them."""


def failing_node(error: BaseException) -> FailingNode | None:
    """The op that was being worked on; of a whole partition, its ops if there are few.

    The innermost frame that has a node of a graph among its variables knows best. Where none has, the
    compiler was given a partition as a whole.
    """
    frames = list(_frames(error))
    for frame in reversed(frames):
        nodes = [v for v in _locals(frame) if isinstance(v, torch.fx.Node) and v.op == "call_function"]
        if nodes:
            return _described(nodes[-1:])
    for frame in reversed(frames):
        for value in _locals(frame):
            if isinstance(value, ExportedProgram):
                ops = [node for node in value.graph.nodes if node.op == "call_function"]
                return _described(ops[:FEW]) if ops else None
    return None


def _frames(error: BaseException) -> Iterator[FrameType]:
    """From the first error's outermost frame to the innermost one of what caused it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        trace = current.__traceback__
        while trace is not None:
            yield trace.tb_frame
            trace = trace.tb_next
        current = current.__cause__ or current.__context__


def _locals(frame: FrameType) -> list[Any]:
    named = dict(frame.f_locals)
    first = [named.pop(name) for name in ("node", "n") if name in named]
    return [*named.values(), *first]


def _described(nodes: list[torch.fx.Node]) -> FailingNode:
    stack = (nodes[0].meta.get("stack_trace") or "").strip().splitlines()
    modules = list((nodes[0].meta.get("nn_module_stack") or {}).values())
    return FailingNode(
        name=", ".join(node.name for node in nodes),
        op=", ".join(target_name(node.target) for node in nodes),
        module=str(modules[-1][0]) if modules else "",
        source=_source(stack),
    )


def _source(stack: list[str]) -> str:
    """``file:line`` of the innermost frame of a stack trace in text, without its directories."""
    places = [line for line in stack if line.lstrip().startswith("File ")]
    if not places:
        return ""
    parts = places[-1].split('"')
    line = parts[2].partition("line ")[2].partition(",")[0]
    return f"{parts[1].rpartition('/')[2]}:{line}"
