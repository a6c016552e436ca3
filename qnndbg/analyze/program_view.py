"""What to draw of a whole program: its partitions, what stays on the CPU, and how they are joined."""

from __future__ import annotations

from collections.abc import Mapping

from qnndbg.analyze.delegates import DELEGATE
from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.view import GETITEM, Box, View, made_by, refs
from qnndbg.model.graph import Graph, Node, Ref
from qnndbg.model.result import LayerResult

LARGEST = 150
"""Boxes beyond which a program is not drawn."""


def program_view(
    outer: Graph, layers: Mapping[int, list[tuple[int, LayerResult]]], title: str
) -> View | None:
    """The program as partitions and ops on the CPU; None if it is one partition, or too large to read.

    Args:
        outer: the method's graph with delegates in it.
        layers: number of a partition to its layers and their positions.
        title: of the view.
    """
    nodes = {node.name: node for node in outer.nodes}
    boxes = {
        node.name: _box(node, nodes, outer.partitions, layers) for node in outer.nodes if _is_drawn(node)
    }
    works = [box for box in boxes.values() if box.kind != "input"]
    if len(works) < 2 or len(boxes) > LARGEST:
        return None
    edges = [
        (source, name)
        for name in boxes
        for source in dict.fromkeys(made_by(ref, nodes) for ref in refs(nodes[name]))
        if source in boxes
    ]
    return View(title=title, boxes=tuple(boxes.values()), edges=tuple(edges))


def _is_drawn(node: Node) -> bool:
    if node.op == "placeholder":
        return node.role in ("input", "state")
    return node.op == "call_function" and node.target != GETITEM


def _box(
    node: Node,
    nodes: Mapping[str, Node],
    partitions: Mapping[str, int],
    layers: Mapping[int, list[tuple[int, LayerResult]]],
) -> Box:
    if node.op == "placeholder":
        return Box(key=node.name, kind="input", title=node.name)
    if node.target != DELEGATE:
        return Box(key=node.name, kind="op", title=short_op(node.target), detail="on the CPU")
    attribute = node.args[0]
    number = partitions.get(nodes[attribute.node].target) if isinstance(attribute, Ref) else None
    inside = layers.get(-1 if number is None else number, [])
    excess = max((layer.excess for _, layer in inside if layer.excess is not None), default=None)
    return Box(
        key=node.name,
        kind="module",
        title="HTP" if number is None else f"HTP, partition {number}",
        detail=f"{len(inside)} QNN tensor{'' if len(inside) == 1 else 's'}",
        layers=tuple(position for position, _ in inside),
        excess=excess,
    )
