"""Says where a node comes from in terms of the user's model, and which pass invented it.

The evidence is what torch.export and the passes leave in ``node.meta`` (``from_node`` chains,
``nn_module_stack``, ``stack_trace``), and what a pass left of the graph that it got: a node that was
there before, or that stands for one that was, keeps its lineage; any other was made by the pass. Debug
handles do not serve, since the last to-edge pass renumbers them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import torch

from qnndbg.capture.targets import target_name
from qnndbg.model.graph import Origin

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = f"{Path(torch.__file__).parent}/"
QUANTISER = "convert_pt2e"
PARTITIONER = "to_backend"
_DELEGATE = "higher_order.executorch_call_delegate"
_QUANTISER_OPS = ("quantized_decomposed.", "torchao.")
_NO_OPS = frozenset({"placeholder", "get_attr", "output"})


Roots = tuple[str, ...]
"""Names at the far ends of a node's ``from_node`` chains."""


class Line(NamedTuple):
    """What is known of one node."""

    ancestors: tuple[str, ...]
    """Nodes of the exported graph that it descends from."""
    created_by: str
    """The pass that made it; empty if the user's model did."""
    trace: str = ""
    """Stack trace of the op that it stands for, if it has none itself."""


Key = tuple[str, Roots]
"""Operator and roots: what a node and its copy in a traced graph have in common."""


class Lineage:
    """The lineage of every node of one method's graph, or of one partition's, as it is now.

    ``from_node`` chains end at nodes of the trace, before torch.export named them; a node that a pass made
    descends from the exported nodes with the same ends.
    """

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._nodes: dict[torch.fx.Node, str] = {}
        self._keys: list[tuple[Key, str]] = []
        """Key and name of each node, in order."""
        self._exported: dict[Roots, list[tuple[str, str]]] = {}
        """Roots to name and operator of the exported nodes that have them."""
        # The same few over and over, and slow to work out.
        self._sources: dict[str | None, str] = {None: ""}
        self._files: dict[str, str] = {}
        self._modules: dict[Any, tuple[str, str]] = {}

    def fork(self) -> Lineage:
        """A lineage that goes its own way from here, as that of a partition does."""
        fork = Lineage()
        fork._lines, fork._keys, fork._exported = dict(self._lines), list(self._keys), self._exported
        fork._sources, fork._files, fork._modules = self._sources, self._files, self._modules
        return fork

    def begin(self, graph: torch.fx.Graph) -> None:
        """Take the nodes of a graph that torch.export made for the ancestors of all that follows."""
        self._exported = {}
        self._lines = {}
        for node in graph.nodes:
            target = target_name(node.target)
            by_quantiser = target.startswith(_QUANTISER_OPS)
            self._lines[node.name] = Line((node.name,), QUANTISER if by_quantiser else "")
            if node.op not in _NO_OPS:
                self._exported.setdefault(_roots_of(node) or (node.name,), []).append((node.name, target))
        self._remember(graph)

    def update(self, graph: torch.fx.Graph, maker: str) -> None:
        """Follow the graph into its next state.

        Args:
            graph: after what the maker did to it.
            maker: the pass, or empty where no pass was at work.
        """
        nodes = {node: node.name for node in graph.nodes}
        if nodes == self._nodes and list(nodes) == list(self._nodes):
            return
        before = dict(self._lines)
        if any(node in self._nodes for node in nodes):  # changed in place
            copies = {node: self._nodes[node] for node in nodes if node in self._nodes}
        else:  # traced anew
            copies = self._aligned(graph)
        kept = set(copies.values())
        gone = {key[1]: before[name] for key, name in self._keys if key[1] and name not in kept}
        filled = self._filled(copies, list(nodes), before)
        self._lines = {
            node.name: before[copies[node]]
            if node in copies
            else self._new(node, maker, gone, filled.get(node))
            for node in nodes
        }
        self._remember(graph)

    def _aligned(self, graph: torch.fx.Graph) -> dict[torch.fx.Node, str]:
        """Each node of a traced graph that is the copy of one before, and the name of that.

        Names are no evidence, as tracing counts them anew. Both graphs list what they have in common in the
        same order, and nodes with roots hold those without in their places.
        """
        nodes = list(graph.nodes)
        old, new = [key for key, _ in self._keys], [_key(node) for node in nodes]
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        copies = {
            nodes[block.b + i]: self._keys[block.a + i][1] for block in blocks for i in range(block.size)
        }
        taken = set(copies.values())
        moved = {key: name for key, name in reversed(self._keys) if key[1] and name not in taken}
        for node, key in zip(nodes, new, strict=True):
            if node not in copies and key in moved:
                copies[node] = moved[key]
        return copies

    def _filled(
        self, copies: dict[torch.fx.Node, str], nodes: list[torch.fx.Node], before: dict[str, Line]
    ) -> dict[torch.fx.Node, Line]:
        """New nodes that stand where an op stood that is gone, and the line of that op."""
        kept = set(copies.values())
        traces = {name: node.meta.get("stack_trace") for node, name in self._nodes.items()}
        gaps: dict[str, Line] = {}
        last = ""
        for key, name in self._keys:
            if name in kept:
                last = name
            elif key[0] not in _NO_OPS:
                line = before[name]
                gaps.setdefault(last, line._replace(trace=line.trace or traces.get(name) or ""))
        filled, last = {}, ""
        for node in nodes:
            if node in copies:
                last = copies[node]
            elif last in gaps and node.op not in _NO_OPS:
                filled[node] = gaps[last]
        return filled

    def _new(self, node: torch.fx.Node, maker: str, gone: dict[Roots, Line], stood: Line | None) -> Line:
        """The line of a node that was not there before.

        One that came in the place of another is a part of it; one that came beside it was invented. A
        delegate stands for a whole partition, whatever node its meta is a copy of.
        """
        line = self._replacing(node, maker, gone, stood)
        return line._replace(created_by=PARTITIONER) if _of_delegate(node) else line

    def _replacing(
        self, node: torch.fx.Node, maker: str, gone: dict[Roots, Line], stood: Line | None
    ) -> Line:
        roots = _roots_of(node)
        related = self._exported.get(roots, [])
        target = target_name(node.target)
        quantiser = target.startswith(_QUANTISER_OPS)
        same_side = [(n, t) for n, t in related if t.startswith(_QUANTISER_OPS) == quantiser]
        same_op = [name for name, other in same_side if other == target]
        ancestors = tuple(same_op or [name for name, _ in same_side])
        makers = {self._lines[name].created_by for name in roots if name in self._lines}
        if roots in gone:
            return gone[roots]._replace(ancestors=ancestors or gone[roots].ancestors)
        if not roots and stood is not None:
            return stood
        copied = [self._lines[name] for name in roots if name in self._lines]
        if copied and not related:  # tracing gives roots to what had none
            return copied[0]
        if maker and node.op not in _NO_OPS:
            return Line(ancestors, maker)
        return Line(ancestors, makers.pop() if len(makers) == 1 else "")

    def _remember(self, graph: torch.fx.Graph) -> None:
        self._nodes = {node: node.name for node in graph.nodes}
        self._keys = [(_key(node), node.name) for node in graph.nodes]

    def evidence(self, metas: Sequence[dict[str, Any]]) -> list[list[object]]:
        """All that the origins of the nodes are made of, to be compared by identity.

        Args:
            metas: of all nodes of the graph that was last followed.
        """
        return [
            [self._lines, self._exported],
            [_innermost(meta.get("nn_module_stack")) for meta in metas],
            [meta.get("stack_trace") for meta in metas],
        ]

    def origin(self, node: torch.fx.Node) -> Origin:
        """The origin of a node of the graph that was last followed."""
        line = self._lines.get(node.name, Line((), ""))
        if node.op in {"placeholder", "output"}:
            return Origin(created_by=line.created_by)
        path, kind = self._module(_innermost(node.meta.get("nn_module_stack")))
        return Origin(
            ancestors=line.ancestors if node.op not in _NO_OPS else (),
            module_path=path,
            module_class=kind,
            source=self._source(node.meta.get("stack_trace")) or self._source(line.trace or None),
            created_by=line.created_by,
        )

    def _module(self, entry: Any) -> tuple[str, str]:
        key = entry and tuple(entry[:2])
        if key not in self._modules:
            self._modules[key] = _module(entry)
        return self._modules[key]

    def _source(self, trace: str | None) -> str:
        if trace not in self._sources:
            self._sources[trace] = self._line_of(trace or "")
        return self._sources[trace]

    def _line_of(self, trace: str) -> str:
        """``file:line`` of the innermost frame outside of torch."""
        frames = [(file, line) for file, line in _FRAME.findall(trace) if not file.startswith((_TORCH, "<"))]
        if not frames:
            return ""
        file, line = frames[-1]
        if file not in self._files:
            self._files[file] = _shown(Path(file))
        return f"{self._files[file]}:{line}"


def _key(node: torch.fx.Node) -> Key:
    return target_name(node.target) if node.op not in _NO_OPS else node.op, _roots_of(node)


def _of_delegate(node: torch.fx.Node) -> bool:
    """The call of a delegate, what it calls, or one of its results."""
    if node.op == "get_attr":
        return any(_calls_delegate(user) for user in node.users)
    source = node.args[0] if target_name(node.target) == "operator.getitem" else node
    return isinstance(source, torch.fx.Node) and _calls_delegate(source)


def _calls_delegate(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) == _DELEGATE


def _roots_of(node: torch.fx.Node) -> Roots:
    return tuple(dict.fromkeys(_roots(node.meta.get("from_node") or ())))


def _roots(sources: Any) -> Iterator[str]:
    """Names at the far end of ``from_node`` chains."""
    for source in sources:
        if source.from_node:
            yield from _roots(source.from_node)
        elif source.name:
            yield source.name


def _innermost(stack: Any) -> Any:
    """The last entry of an ``nn_module_stack``, a pair of path and class; None if there is none."""
    return next(reversed(stack.values())) if stack else None


def _module(entry: Any) -> tuple[str, str]:
    """Path and class name of a module of an ``nn_module_stack``."""
    if entry is None:
        return "", ""
    path, kind = entry[:2]
    name = kind if isinstance(kind, str) else kind.__qualname__
    return re.sub(r"^L\['self'\]\.?|^L__self___?", "", str(path)), name.rsplit(".", 1)[-1]


def _shown(path: Path) -> str:
    """The path from the current folder or from an import folder, so that it says nothing of this machine."""
    for folder in (Path.cwd(), *(Path(entry) for entry in sys.path if entry)):
        if path.is_relative_to(folder):
            return str(path.relative_to(folder))
    return path.name
