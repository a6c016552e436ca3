"""Where two runs of one program begin to differ, when a pass has changed its graph in between.

Nodes that a pass leaves alone keep their names, and those it makes have new ones. So the first node of the
same name with another value is at the fault, or reads what is: another constant, or a node that the pass put
in front of it. Layouts and transposed weights are no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from qnndbg.model.graph import Graph, Node, Ref, TensorRef

Differs = Callable[[torch.Tensor, torch.Tensor], bool]


@dataclass(frozen=True, slots=True)
class Ran:
    """A graph and what its ops computed."""

    graph: Graph
    values: Mapping[tuple[str, int], Any]

    def value(self, name: str, load: Callable[[TensorRef], torch.Tensor]) -> torch.Tensor | None:
        """A node's first output in its logical layout, or the constant that it holds."""
        node = next((node for node in self.graph.nodes if node.name == name), None)
        if node is None:
            return None
        if node.constant is not None:
            return load(node.constant)
        value = self.values.get((name, 0))
        return logical(node, value, self.graph) if isinstance(value, torch.Tensor) else None


def first_difference(
    before: Ran, after: Ran, load: Callable[[TensorRef], torch.Tensor], differs: Differs
) -> str:
    """The node behind a pass with which the numbers begin to differ; empty if no node of the same name does.

    Args:
        before: the run of the graph that the pass got.
        after: the run of what it made of it.
        load: gives the tensor behind a reference.
        differs: whether two tensors of one shape are not the same numbers.
    """
    old = {node.name: node for node in before.graph.nodes}
    for node in after.graph.nodes:
        if node.op != "call_function" or node.name not in old:
            continue
        pair = before.value(node.name, load), after.value(node.name, load)
        if _part(*pair, differs):
            return _at_fault(old[node.name], node, before, after, load, differs)
    return ""


def _at_fault(
    old: Node,
    new: Node,
    before: Ran,
    after: Ran,
    load: Callable[[TensorRef], torch.Tensor],
    differs: Differs,
) -> str:
    """What a node reads, if that is another number than before; else the node itself."""
    for was, now in zip(old.args, new.args, strict=False):
        if isinstance(was, Ref) and isinstance(now, Ref):
            one, other = before.value(was.node, load), after.value(now.node, load)
            rewired = was.node != now.node and now.node in {node.name for node in before.graph.nodes}
            if not rewired and _part(one, other, differs):
                return now.node
    return new.name


def _part(one: torch.Tensor | None, other: torch.Tensor | None, differs: Differs) -> bool:
    """Whether two values are other numbers; in another shape only their sorted numbers are compared."""
    if one is None or other is None or one.numel() != other.numel():
        return False
    if one.shape == other.shape:
        return differs(one, other)
    return differs(one.flatten().double().sort().values, other.flatten().double().sort().values)


def logical(node: Node, value: torch.Tensor, graph: Graph) -> torch.Tensor:
    """A value that is laid out as the HTP stores it, in the layout of the model."""
    order = node.axis_order
    if not graph.stored_layout or order is None or value.dim() != len(order):
        return value
    return value.permute([order.index(i) for i in range(len(order))])
