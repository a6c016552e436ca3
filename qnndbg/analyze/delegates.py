"""Which output of which delegate an output of the method is."""

from __future__ import annotations

from qnndbg.model.graph import Graph, Ref

DELEGATE = "higher_order.executorch_call_delegate"


def delegate_outputs(outer: Graph) -> tuple[tuple[int, int] | None, ...]:
    """Partition and number of the delegate's output, for each user output that comes straight from one.

    Args:
        outer: the method's graph with delegates in it.
    """
    return tuple(_origin(outer, output.value) for output in outer.outputs if output.role == "output")


def _origin(outer: Graph, value: object) -> tuple[int, int] | None:
    nodes = {node.name: node for node in outer.nodes}
    node = nodes[value.node] if isinstance(value, Ref) else None
    if node is None or node.target != "operator.getitem":
        return None
    call, number = node.args
    if not isinstance(call, Ref) or not isinstance(number, int) or nodes[call.node].target != DELEGATE:
        return None
    attribute = nodes[call.node].args[0]
    partition = outer.partitions.get(nodes[attribute.node].target) if isinstance(attribute, Ref) else None
    return None if partition is None else (partition, number)
