"""Finds the node that computes the same value in the graph of another stage.

By provenance, since retracing numbers the names anew: nodes descend from ops of the exported graph, and the
graphs in front of that one are paired with it op by op. A name counts only where there is no provenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from qnndbg.analyze.twins import twins
from qnndbg.model.graph import Graph, Node

BEFORE_EXPORT = frozenset({"annotation", "quantized"})
"""Stages whose names are not those of the exported graph."""
GETITEM = "operator.getitem"
RESHAPING = frozenset({"view", "reshape", "squeeze", "unsqueeze", "permute"})
"""Ops that decompositions and layouts put behind an op, and that leave its numbers alone."""


@dataclass(frozen=True)
class Staged:
    """The graph of a stage, with what its nodes descend from.

    Args:
        stage: of the lowering.
        graph: any snapshot of it.
        exported: the exported graph, in whose names provenance is kept; None if it was not reached.
    """

    stage: str
    graph: Graph
    exported: Graph | None

    def ancestor(self, node: Node) -> str:
        """The op of the exported graph that a node descends from, or that it is; empty if it is not known."""
        return self._ancestors.get(node.name, "")

    def is_part(self, node: Node) -> bool:
        """Whether a node computes only a part of what the op computed that it descends from."""
        family = [n for n in self.family(self.ancestor(node)) if not n.origin.created_by]
        behind = family[family.index(node) + 1 :] if node in family else family[-1:]
        return any(kind(n) not in RESHAPING and n.target != GETITEM for n in behind)

    def family(self, ancestor: str) -> Sequence[Node]:
        """All nodes that descend from an op of the exported graph."""
        return self._families.get(ancestor, ()) if ancestor else ()

    def twin(self, node: Node, other: Staged) -> Node | None:
        """The node of this graph that stands for a node of another stage.

        Of several with its ancestor it is one of the same op, in the same place among those of that op if
        there are as many there; else the last of them, unless the node computes only a part of that.
        """
        ancestor = other.ancestor(node)
        if not ancestor:
            return self._of_name(node)
        family, there = self.family(ancestor), other.family(ancestor)
        same = [n for n in family if _key(n) == _key(node)]
        mine = [n for n in there if _key(n) == _key(node)]
        if same:
            return same[mine.index(node) if len(mine) == len(same) else -1]
        own = [n for n in family if not n.origin.created_by] or family
        in_parts = sum(n.target != GETITEM for n in own) > 1
        return own[-1] if own and not (in_parts and other.is_part(node)) else None

    def _of_name(self, node: Node) -> Node | None:
        found = self.named.get(node.name)
        alike = found is not None and not self.ancestor(found) and _key(found) == _key(node)
        return found if alike else None

    @cached_property
    def named(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.graph.nodes}

    @cached_property
    def _families(self) -> Mapping[str, Sequence[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            found.setdefault(self.ancestor(node), []).append(node)
        return found

    @cached_property
    def _ancestors(self) -> Mapping[str, str]:
        exported = self.exported
        if exported is not None and self.stage in BEFORE_EXPORT:
            return {name: twin.name for name, twin in twins(self.graph, exported).items()}
        picks = {n.name for n in exported.nodes if n.target == GETITEM} if exported is not None else set()
        return {node.name: _last(node, picks) for node in self.graph.nodes}


def _last(node: Node, picks: set[str]) -> str:
    """What picks one of several outputs is no op, unless the node does only that. An input keeps its name."""
    names: Sequence[str] = node.origin.ancestors or ([node.name] if node.role == "input" else [])
    ops = [name for name in names if name not in picks]
    return next(iter([*reversed(ops), *reversed(names)]), "")


def _key(node: Node) -> tuple[str, str, str]:
    return node.op, kind(node), node.origin.created_by


def kind(node: Node) -> str:
    """The op without its overload, and whether or not it copies."""
    name = node.target.split(".")[1] if node.target.count(".") > 1 else node.target
    return name.removesuffix("_copy") if node.op == "call_function" else node.op
