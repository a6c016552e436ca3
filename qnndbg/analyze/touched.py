"""Which nodes a pass touched: what differs between the graphs before and after it, by name."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from qnndbg.model.graph import Graph, Node, Origin


class Touched(NamedTuple):
    """The nodes of the graph after a pass that it made or changed, and the names that are gone."""

    made: tuple[Node, ...]
    changed: tuple[Node, ...]
    gone: tuple[str, ...]

    @property
    def first(self) -> Node | None:
        """The one to name: the first that was changed or made, an op before anything else."""
        nodes = [*self.changed, *self.made]
        ops = [node for node in nodes if node.op == "call_function"]
        return next(iter([*ops, *nodes]), None)


def touched(before: Graph, after: Graph) -> Touched:
    """Compare two snapshots of one graph, in which untouched nodes keep their names."""
    old = {node.name: _bare(node) for node in before.nodes}
    names = {node.name for node in after.nodes}
    return Touched(
        made=tuple(node for node in after.nodes if node.name not in old),
        changed=tuple(node for node in after.nodes if node.name in old and _bare(node) != old[node.name]),
        gone=tuple(name for name in old if name not in names),
    )


def _bare(node: Node) -> Node:
    """A node without what says where it comes from and how it is numbered."""
    return replace(node, origin=Origin(), handle=(), tensors=())
