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
from pathlib import Path
from typing import Any, NamedTuple

import torch

from qnndbg.capture.targets import target_name
from qnndbg.model.graph import Origin

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = f"{Path(torch.__file__).parent}/"
QUANTISER = "convert_pt2e"
_QUANTISER_OPS = ("quantized_decomposed.", "torchao.")


Roots = tuple[str, ...]
"""Names at the far ends of a node's ``from_node`` chains."""


class Line(NamedTuple):
    """What is known of one node."""

    roots: Roots
    created_by: str
    """The pass that made it; empty if the user's model did."""


class Lineage:
    """The lineage of every node of one method's graph, or of one partition's, as it is now.

    ``from_node`` chains end at nodes of the trace, before torch.export named them; the exported nodes with
    the same ends are what is shown as ancestors.
    """

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._targets: dict[str, object] = {}
        self._nodes: dict[torch.fx.Node, str] = {}
        # Quantiser and op share their roots, so they are told apart by a flag.
        self._exported: dict[tuple[Roots, bool], tuple[str, ...]] = {}
        # The same few over and over, and slow to work out.
        self._sources: dict[str | None, str] = {None: ""}
        self._files: dict[str, str] = {}
        self._modules: dict[Any, tuple[str, str]] = {}

    def fork(self) -> Lineage:
        """A lineage that goes its own way from here, as that of a partition does."""
        fork = Lineage()
        fork._lines, fork._targets, fork._exported = dict(self._lines), dict(self._targets), self._exported
        fork._sources, fork._files, fork._modules = self._sources, self._files, self._modules
        return fork

    def begin(self, graph: torch.fx.Graph) -> None:
        """Take the nodes of a graph that torch.export made for the ancestors of all that follows."""
        self._exported = {}
        for node in graph.nodes:
            if node.op not in {"placeholder", "output", "get_attr"}:
                key = _roots_of(node) or (node.name,), _is_quantiser_op(node)
                self._exported[key] = (*self._exported.get(key, ()), node.name)
        self._nodes, self._targets = {}, {}
        self._lines = {node.name: _first_line(node) for node in graph.nodes}
        self._remember(graph)

    def update(self, graph: torch.fx.Graph, maker: str) -> None:
        """Follow the graph into its next state.

        Args:
            graph: after what the maker did to it.
            maker: the pass, or empty where no pass was at work.
        """
        nodes = {node: node.name for node in graph.nodes}
        if nodes != self._nodes or list(nodes) != list(self._nodes):
            known: dict[tuple[str, Roots], Line] = {}
            for name, line in self._lines.items():
                known.setdefault((self._target(name), line.roots), line)
            self._lines = {node.name: self._line(node, maker, known) for node in graph.nodes}
        self._remember(graph)

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

    def _remember(self, graph: torch.fx.Graph) -> None:
        self._targets = {node.name: node.target for node in graph.nodes}
        self._nodes = {node: node.name for node in graph.nodes}

    def _target(self, name: str) -> str:
        """Name of the operator that the node of that name called; empty if there was none."""
        return target_name(self._targets[name]) if name in self._targets else ""

    def _line(self, node: torch.fx.Node, maker: str, known: dict[tuple[str, Roots], Line]) -> Line:
        target = target_name(node.target)
        if node in self._nodes:
            return self._lines[self._nodes[node]]
        if node.name in self._targets and self._target(node.name) == target:
            return self._lines[node.name]
        roots = _roots_of(node)
        if roots and (target, roots) in known:
            return known[target, roots]
        if not maker or node.op in {"placeholder", "output", "get_attr"}:
            return Line(roots, self._inherited(roots))
        return Line(roots, maker)

    def _inherited(self, roots: Roots) -> str:
        """The maker of what a node descends from, if that was invented itself."""
        makers = {self._lines[root].created_by for root in roots if root in self._lines}
        return makers.pop() if len(makers) == 1 else ""

    def origin(self, node: torch.fx.Node) -> Origin:
        """The origin of a node of the graph that was last followed."""
        line = self._lines.get(node.name, Line((), ""))
        if node.op in {"placeholder", "output"}:
            return Origin(created_by=line.created_by)
        path, kind = self._module(_innermost(node.meta.get("nn_module_stack")))
        return Origin(
            ancestors=self._exported.get((line.roots, _is_quantiser_op(node)), ()) if line.roots else (),
            module_path=path,
            module_class=kind,
            source=self._source(node.meta.get("stack_trace")),
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


def _first_line(node: torch.fx.Node) -> Line:
    return Line(_roots_of(node) or (node.name,), QUANTISER if _is_quantiser_op(node) else "")


def _is_quantiser_op(node: torch.fx.Node) -> bool:
    return target_name(node.target).startswith(_QUANTISER_OPS)


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
