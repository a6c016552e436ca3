"""Whether two graphs are the same node by node, in their order; much cheaper than canonical forms."""

from __future__ import annotations

from itertools import repeat

from qnndbg.analyze.diff.form import NAMED, properties
from qnndbg.model.graph import Arg, Graph, Node, Ref, Seq, Slice


def in_step(a: Graph, b: Graph) -> bool:
    """Node after node is the same but for names and provenance. If not, they may still be rearranged.

    Args:
        a: one graph.
        b: the other.
    """
    if len(a.nodes) != len(b.nodes) or len(a.outputs) != len(b.outputs):
        return False
    names: dict[str, str] = {}
    for left, right in zip(a.nodes, b.nodes, strict=True):
        if not _same(left, right, names):
            return False
        if left.op == "get_attr" and a.partitions.get(left.target) != b.partitions.get(right.target):
            return False
        names[left.name] = right.name
    return _requantized(a, names) == _requantized(b, {}) and all(
        x.role == y.role and names.get(x.target, "") == y.target and _same_arg(x.value, y.value, names)
        for x, y in zip(a.outputs, b.outputs, strict=True)
    )


def _same(a: Node, b: Node, names: dict[str, str]) -> bool:
    return (
        a.op == b.op
        and (a.target == b.target or a.op in NAMED)
        and properties(a) == properties(b)
        and a.kwargs.keys() == b.kwargs.keys()
        and len(a.args) == len(b.args)
        and all(map(_same_arg, a.args, b.args, repeat(names)))
        and all(_same_arg(a.kwargs[key], b.kwargs[key], names) for key in a.kwargs)
    )


def _same_arg(a: Arg, b: Arg, names: dict[str, str]) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, Ref) and isinstance(b, Ref):
        return names.get(a.node) == b.node
    if isinstance(a, Seq) and isinstance(b, Seq):
        return len(a.items) == len(b.items) and all(map(_same_arg, a.items, b.items, repeat(names)))
    if isinstance(a, Slice) and isinstance(b, Slice):
        parts = zip((a.start, a.stop, a.step), (b.start, b.stop, b.step), strict=True)
        return all(_same_arg(x, y, names) for x, y in parts)
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()
    return a == b


def _requantized(graph: Graph, names: dict[str, str]) -> dict[str, object]:
    return {
        names.get(node.name, node.name): {names.get(user, user): q for user, q in node.requantize.items()}
        for node in graph.nodes
        if node.requantize
    }
