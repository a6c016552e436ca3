"""What to draw of a partition's graph so that it stays readable: all of it, or its modules and its sources.

A small graph is drawn whole. Of a large one there is a map of its modules, and the neighbourhood of each of
its worst layers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from qnndbg.analyze.phrases import short_op
from qnndbg.model.graph import Arg, Graph, Node, Ref, Seq, Slice
from qnndbg.model.result import LayerResult

WHOLE = 90
"""Boxes up to which a graph is drawn whole."""
MODULES = 48
"""Boxes that a map of modules may have."""
FEW = 4
"""A map of fewer modules says nothing."""
APART = 16
"""Of more modules than there is room for, the worst that are drawn by themselves."""
NEAR = 30
"""Boxes in the neighbourhood of a source."""
SOURCES = 4
GETITEM = "operator.getitem"

Kind = Literal["op", "input", "module", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One thing to draw."""

    key: str
    kind: Kind
    title: str
    detail: str = ""
    layers: tuple[int, ...] = ()
    """Positions among the layers of the comparison."""
    excess: float | None = None
    """Worst local error over floor among them; None if none was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Boxes, and edges between their keys."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[str, str], ...]


def views(
    graph: Graph, layers: Mapping[str, tuple[int, LayerResult]], title: str, worst: Iterable[str]
) -> tuple[View, ...]:
    """What to draw of one partition.

    Args:
        graph: its last one.
        layers: QNN tensor to its layer and the layer's position.
        title: of the partition.
        worst: QNN tensors, the worst first.
    """
    whole = _whole(graph, layers)
    if len(whole.boxes) <= WHOLE:
        return (View(title=title, boxes=tuple(whole.boxes.values()), edges=whole.edges),)
    found: list[View] = [_modules(whole, title)]
    holders = {position: key for key, box in whole.boxes.items() for position in box.layers}
    keys = [holders[layers[name][0]] for name in worst if name in layers and layers[name][0] in holders]
    for key in list(dict.fromkeys(keys))[:SOURCES]:
        found.append(_neighbourhood(whole, key, title))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Whole:
    boxes: dict[str, Box]
    modules: dict[str, str] = field(default_factory=dict)
    edges: tuple[tuple[str, str], ...] = ()


def _whole(graph: Graph, layers: Mapping[str, tuple[int, LayerResult]]) -> _Whole:
    nodes = {node.name: node for node in graph.nodes}
    boxes = {node.name: _box(node, layers) for node in graph.nodes if _is_drawn(node)}
    modules = {name: nodes[name].origin.module_path for name in boxes}
    edges = [
        (source, name)
        for name in boxes
        for source in dict.fromkeys(made_by(ref, nodes) for ref in refs(nodes[name]))
        if source in boxes
    ]
    return _Whole(boxes, modules, tuple(edges))


def _is_drawn(node: Node) -> bool:
    if node.op == "placeholder":
        return node.role in ("input", "state")
    return node.op == "call_function" and node.target != GETITEM


def made_by(name: str, nodes: Mapping[str, Node]) -> str:
    """The op behind a getitem, which only picks one of its outputs."""
    node = nodes.get(name)
    if node is not None and node.target == GETITEM and isinstance(node.args[0], Ref):
        return node.args[0].node
    return name


def refs(node: Node) -> Iterator[str]:
    """The names of the nodes that a node reads."""
    for arg in (*node.args, *node.kwargs.values()):
        yield from _refs(arg)


def _refs(arg: Arg) -> Iterator[str]:
    if isinstance(arg, Ref):
        yield arg.node
    elif isinstance(arg, Seq):
        for item in arg.items:
            yield from _refs(item)
    elif isinstance(arg, Slice):
        for part in (arg.start, arg.stop, arg.step):
            yield from _refs(part)


def _box(node: Node, layers: Mapping[str, tuple[int, LayerResult]]) -> Box:
    found = [layers[name] for name in node.tensors if name in layers]
    return Box(
        key=node.name,
        kind="input" if node.op == "placeholder" else "op",
        title=node.name if node.op == "placeholder" else short_op(node.target),
        detail=node.origin.module_path or node.origin.created_by,
        layers=tuple(position for position, _ in found),
        excess=_worst(layer.excess for _, layer in found),
    )


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _modules(whole: _Whole, title: str) -> View:
    """A box a module, of as deep a level as there is room for.

    If only a level with hardly any modules has room, the next one is drawn with its worst modules apart and
    those between them together.
    """
    depths = range(max(path.count(".") + 1 for path in whole.modules.values()), 0, -1)
    groups = {depth: list(dict.fromkeys(_cut(p, depth) for p in whole.modules.values())) for depth in depths}
    depth = next((d for d in depths if len(groups[d]) <= MODULES), 1)
    if len(groups[depth]) < FEW and depth + 1 in groups:
        depth += 1
    members: dict[str, list[Box]] = {}
    for key, box in whole.boxes.items():
        members.setdefault(_cut(whole.modules[key], depth), []).append(box)
    name_of = _together(members) if len(members) > MODULES else {path: path for path in members}
    merged: dict[str, list[Box]] = {}
    for path, boxes in members.items():
        merged.setdefault(name_of[path], []).extend(boxes)
    of = {key: f"module {name_of[_cut(path, depth)]}" for key, path in whole.modules.items()}
    edges = dict.fromkeys((of[a], of[b]) for a, b in whole.edges if of[a] != of[b])
    drawn = tuple(_module(path, boxes) for path, boxes in merged.items())
    return View(title=f"{title}: modules", boxes=drawn, edges=tuple(edges))


def _together(members: Mapping[str, list[Box]]) -> dict[str, str]:
    """Each module to its name on the map: the worst keep theirs, runs of others get one in common."""
    worst = sorted(members, key=lambda path: -(_worst(box.excess for box in members[path]) or 0.0))[:APART]
    runs: list[list[str]] = []
    for path in members:
        if path in worst or not runs or runs[-1][0] in worst:
            runs.append([path])
        else:
            runs[-1].append(path)
    names = {run[0]: run[0] if len(run) == 1 else _span(run[0], run[-1]) for run in runs}
    return {path: names[run[0]] for run in runs for path in run}


def _span(first: str, last: str) -> str:
    """Two siblings and all between them; the second without what they share."""
    parent, _, _ = first.rpartition(".")
    return f"{first} … {last.removeprefix(f'{parent}.')}"


def _cut(path: str, depth: int) -> str:
    return ".".join(path.split(".")[:depth])


def _module(path: str, members: list[Box]) -> Box:
    return Box(
        key=f"module {path}",
        kind="module",
        title=path or "(no module)",
        detail=f"{len(members)} ops",
        layers=tuple(position for box in members for position in box.layers),
        excess=_worst(box.excess for box in members),
    )


def _neighbourhood(whole: _Whole, centre: str, title: str) -> View:
    """The boxes around one, nearest first; what is cut off is shown as such."""
    near: dict[str, list[str]] = {}
    for a, b in whole.edges:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    kept, waiting = {centre}, deque([centre])
    while waiting and len(kept) < NEAR:
        for key in near.get(waiting.popleft(), []):
            if key not in kept and len(kept) < NEAR:
                kept.add(key)
                waiting.append(key)
    boxes = [box for key, box in whole.boxes.items() if key in kept]
    edges = [edge for edge in whole.edges if kept.issuperset(edge)]
    for key in (key for key in whole.boxes if key in kept):
        before = [a for a, b in whole.edges if b == key and a not in kept]
        behind = [b for a, b in whole.edges if a == key and b not in kept]
        for name, others in (("before", before), ("behind", behind)):
            if others:
                cut = f"{name} {key}"
                boxes.append(Box(key=cut, kind="cut", title=f"{len(others)} more"))
                edges.append((cut, key) if name == "before" else (key, cut))
    heart = whole.boxes[centre]
    name = " ".join(part for part in (heart.title, f"({heart.detail})" if heart.detail else "") if part)
    return View(title=f"{title}: around {name}", boxes=tuple(boxes), edges=tuple(edges))


def heat(excess: float | None) -> int | None:
    """How far an error is beyond its floor, from 0 (rounding) to 4; None if it was not compared."""
    if excess is None:
        return None
    return next((level for level, limit in enumerate(LIMITS) if excess <= limit), len(LIMITS))


LIMITS = (1.0, 3.0, 10.0, 100.0)
"""Multiples of the noise floor at which the heat rises."""
