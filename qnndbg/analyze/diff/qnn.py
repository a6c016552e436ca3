"""The QNN graphs of two recordings: which op and tensor of one is which of the other, and what differs.

Partitions have no identity, since an op that stays on the CPU splits one in two. So all partitions of a
method are paired as one graph, and a tensor goes with the node that it is an output of.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from qnndbg.analyze.diff.form import joined
from qnndbg.analyze.diff.nodes import encoding_changes
from qnndbg.analyze.diff.pair import pair
from qnndbg.analyze.diff.sides import Side, Sides
from qnndbg.model.diff import Change, QnnOpDiff, QnnPlace
from qnndbg.model.graph import Node
from qnndbg.model.recording import QnnGraph, QnnOp, QnnTensor


class TensorId(NamedTuple):
    """A QNN tensor."""

    method: str
    partition: int
    name: str


class Tensors(dict[TensorId, TensorId]):
    """Each tensor of A that B has, too, and which it is there."""

    @functools.cached_property
    def targets(self) -> frozenset[TensorId]:
        """The tensors of B that A has, too."""
        return frozenset(self.values())


def pair_tensors(sides: Sides) -> Tensors:
    """Pair the QNN tensors of both sides."""
    if sides.a.recording.qnn == sides.b.recording.qnn:
        return Tensors({key: key for graph in sides.a.recording.qnn for key in _ids(graph)})
    pairs = Tensors()
    methods = {graph.method for side in (sides.a, sides.b) for graph in side.recording.qnn}
    for method in sorted(methods):
        left, right = ([g for g in s.recording.qnn if g.method == method] for s in (sides.a, sides.b))
        pairs.update(_of_method(sides, method, left, right))
    return pairs


def _ids(graph: QnnGraph) -> Iterator[TensorId]:
    return (TensorId(graph.method, graph.partition, tensor.name) for tensor in graph.tensors)


def _of_method(sides: Sides, method: str, a: list[QnnGraph], b: list[QnnGraph]) -> dict[TensorId, TensorId]:
    partners = _partners(sides, method, a, b)
    places = [_places(side, graphs) for side, graphs in ((sides.a, a), (sides.b, b))]
    by_place = {place: tensor for tensor, place in places[1].items()}
    pairs: dict[TensorId, TensorId] = {}
    for tensor, (node, output) in places[0].items():
        match = by_place.get((partners[node], output))
        if match is not None:
            pairs[tensor] = match
    return pairs | _by_name(a, b, pairs)


def _partners(sides: Sides, method: str, a: list[QnnGraph], b: list[QnnGraph]) -> list[int]:
    """The nodes of all partitions of A, and which they are among those of B."""
    if len(a) == len(b) == 1:
        return sides.pair(a[0].graph, b[0].graph, method, "preprocess").to_b  # which others ask for, too
    nodes = _nodes(sides.a, a), _nodes(sides.b, b)
    whole = [joined([side.form(g.graph) for g in graphs]) for side, graphs in ((sides.a, a), (sides.b, b))]
    return pair(whole[0], whole[1], sides.intern, *sides.evidence(method, *nodes)).to_b


def _nodes(side: Side, graphs: Sequence[QnnGraph]) -> list[Node]:
    return [node for graph in graphs for node in side.graph(graph.graph).nodes]


def _places(side: Side, graphs: Sequence[QnnGraph]) -> dict[TensorId, tuple[int, int]]:
    """Tensor to the node that it is an output of, as a position in all partitions, and to which output."""
    places: dict[TensorId, tuple[int, int]] = {}
    start = 0
    for graph in graphs:
        names = side.form(graph.graph).names
        number = {name: start + i for i, name in enumerate(names)}
        for tensor in graph.tensors:
            if tensor.node in number:
                key = TensorId(graph.method, graph.partition, tensor.name)
                places[key] = number[tensor.node], tensor.output
        start += len(names)
    return places


def _by_name(
    a: list[QnnGraph], b: list[QnnGraph], known: dict[TensorId, TensorId]
) -> dict[TensorId, TensorId]:
    """Tensors that no node made, such as scratch: by their names, for want of anything better."""
    left = [key for graph in a for key in _ids(graph) if key not in known]
    taken = set(known.values())
    right = {key for graph in b for key in _ids(graph)} - taken
    nodes_b = {TensorId(g.method, g.partition, t.name) for g in b for t in g.tensors if t.node}
    nodes_a = {TensorId(g.method, g.partition, t.name) for g in a for t in g.tensors if t.node}
    return {key: key for key in left if key in right and key not in nodes_a and key not in nodes_b}


def qnn_diffs(sides: Sides, pairs: Tensors) -> tuple[QnnOpDiff, ...]:
    """The QNN ops that are not the same on both sides, by method and then in the order of the graphs."""
    if sides.a.recording.qnn == sides.b.recording.qnn:
        return ()
    left, right = (_makers(side.recording.qnn) for side in (sides.a, sides.b))
    ops_b = _ops(sides.b.recording.qnn)
    found: list[tuple[tuple[str, list[int], list[str]], QnnOpDiff]] = []
    seen: set[tuple[int, str]] = set()
    for at, ((graph, op), outputs) in enumerate(_ops(sides.a.recording.qnn)):
        partner = next((right[pairs[o]] for o in outputs if pairs.get(o) in right), None)
        if partner is None:
            found.append(_alone(graph, op, at, "a"))
            continue
        seen.add((partner.at, partner.op.name))
        changes = tuple(_op_changes(left[outputs[0]], partner, pairs))
        if changes:
            diff = QnnOpDiff(
                method=graph.method, a=_place(graph, op), b=_place(partner.graph, partner.op), changes=changes
            )
            found.append(((graph.method, sorted((at, partner.at)), sorted((op.name, partner.op.name))), diff))
    for at, ((graph, op), _) in enumerate(ops_b):
        if (at, op.name) not in seen:
            found.append(_alone(graph, op, at, "b"))
    return tuple(diff for _, diff in sorted(found, key=lambda item: item[0]))


def _alone(
    graph: QnnGraph, op: QnnOp, at: int, side: str
) -> tuple[tuple[str, list[int], list[str]], QnnOpDiff]:
    place = _place(graph, op)
    diff = QnnOpDiff(method=graph.method, a=place if side == "a" else None, b=place if side == "b" else None)
    return (graph.method, [at], [op.name]), diff


class _Made(NamedTuple):
    """An op, and its place among all."""

    at: int
    graph: QnnGraph
    op: QnnOp
    tensors: dict[str, QnnTensor]


def _ops(graphs: Sequence[QnnGraph]) -> list[tuple[tuple[QnnGraph, QnnOp], list[TensorId]]]:
    return [
        ((graph, op), [TensorId(graph.method, graph.partition, name) for name in op.outputs])
        for graph in graphs
        for op in graph.ops
    ]


def _makers(graphs: Sequence[QnnGraph]) -> dict[TensorId, _Made]:
    tensors = {(g.method, g.partition): {t.name: t for t in g.tensors} for g in graphs}
    return {
        output: _Made(at, graph, op, tensors[graph.method, graph.partition])
        for at, ((graph, op), outputs) in enumerate(_ops(graphs))
        for output in outputs
    }


def _place(graph: QnnGraph, op: QnnOp) -> QnnPlace:
    return QnnPlace(name=op.name, type=op.type, partition=graph.partition)


def _op_changes(a: _Made, b: _Made, pairs: Tensors) -> Iterator[Change]:
    for what in ("type", "package"):
        left, right = getattr(a.op, what), getattr(b.op, what)
        if left != right:
            yield Change(what=what, a=left, b=right)
    for key in sorted({*a.op.params, *b.op.params}):
        if a.op.params.get(key) != b.op.params.get(key):
            yield Change(what=f"param {key}", a=a.op.params.get(key), b=b.op.params.get(key))
    yield from _input_changes(a, b, pairs)
    for x, y in zip(a.op.outputs, b.op.outputs, strict=False):
        yield from _tensor_changes(a.tensors.get(x), b.tensors.get(y), "")


def _input_changes(a: _Made, b: _Made, pairs: Tensors) -> Iterator[Change]:
    read = [pairs.get(TensorId(a.graph.method, a.graph.partition, name)) for name in a.op.inputs]
    other = [TensorId(b.graph.method, b.graph.partition, name) for name in b.op.inputs]
    alone = None in read or not pairs.targets.issuperset(other)
    if len(read) != len(other) or (read != other and not alone):
        yield Change(what="inputs", a=", ".join(a.op.inputs), b=", ".join(b.op.inputs))
    for place, (x, y) in enumerate(zip(a.op.inputs, b.op.inputs, strict=False)):
        left, right = a.tensors.get(x), b.tensors.get(y)
        if left and right and left.kind == right.kind == "static":
            yield from _tensor_changes(left, right, f"input {place} ")


def _tensor_changes(a: QnnTensor | None, b: QnnTensor | None, prefix: str) -> Iterator[Change]:
    if a is None or b is None:
        return
    if a.kind != b.kind:
        yield Change(what=f"{prefix}kind", a=a.kind, b=b.kind)
    if a.dtype != b.dtype:
        yield Change(what=f"{prefix}dtype", a=a.dtype, b=b.dtype)
    if a.shape != b.shape:
        yield Change(what=f"{prefix}shape", a=str(list(a.shape)), b=str(list(b.shape)))
    for change in encoding_changes(a.encoding, b.encoding):
        yield Change(what=f"{prefix}{change.what}", a=change.a, b=change.b, count=change.count)
