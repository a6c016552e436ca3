"""How two snapshots differ, node by node, and where each stage's last snapshots do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qnndbg.analyze.diff.form import Form
from qnndbg.analyze.diff.nodes import node_changes, place_of
from qnndbg.analyze.diff.pair import Pairing
from qnndbg.analyze.diff.sides import Sides
from qnndbg.model.diff import Change, GraphDiff, NodeChange
from qnndbg.model.graph import Node
from qnndbg.model.recording import PassEvent, Stage

Place = tuple[Stage, str, int | None]
"""Stage, method and partition."""


def graph_diff(sides: Sides, place: Place, a: str, b: str) -> GraphDiff | None:
    """Compare two snapshots.

    Args:
        sides: the recordings.
        place: where the snapshots were taken.
        a: digest of the one; empty if there is none.
        b: digest of the other.

    Returns:
        None if they are the same, or if a baseline keeps only the digest of one.
    """
    stage, method, partition = place
    if sides.same(a, b) or not (a or b):
        return None
    if not all(side.recording.holds(digest) for side, digest in ((sides.a, a), (sides.b, b)) if digest):
        return None
    graphs = sides.a.graph(a) if a else None, sides.b.graph(b) if b else None
    nodes_a, nodes_b = (graph.nodes if graph else () for graph in graphs)
    changed: list[NodeChange] = []
    only_a: list[int] = []
    only_b: list[int] = []
    if graphs[0] and graphs[1]:
        pairing = sides.pair(a, b, method, stage)
        changed = _changed(sides.a.form(a), sides.b.form(b), nodes_a, nodes_b, pairing)
        only_a = [i for i, j in enumerate(pairing.to_b) if j < 0]
        only_b = [j for j, i in enumerate(pairing.to_a) if i < 0]
    return GraphDiff(
        stage=stage,
        method=method,
        partition=partition,
        nodes_a=len(nodes_a) if graphs[0] else None,
        nodes_b=len(nodes_b) if graphs[1] else None,
        changed=tuple(changed),
        only_a=tuple(place_of(nodes_a[i]) for i in only_a),
        only_b=tuple(place_of(nodes_b[j]) for j in only_b),
    )


def last_graphs(sides: Sides) -> tuple[GraphDiff, ...]:
    """The last snapshots of every stage, method and partition, those that differ."""
    left, right = _last(sides.a.passes), _last(sides.b.passes)
    found = (graph_diff(sides, p, left.get(p, ""), right.get(p, "")) for p in sorted_places(left, right))
    return tuple(diff for diff in found if diff is not None)


STAGES: tuple[Stage, ...] = (
    "annotation",
    "quantized",
    "export",
    "edge",
    "transform",
    "partition",
    "preprocess",
    "executorch",
)


def sorted_places(*sides: dict[Place, str]) -> list[Place]:
    """Places of either side in the order of the lowering, then by method and partition."""

    def order(place: Place) -> tuple[int, str, int]:
        stage, method, partition = place
        return STAGES.index(stage), method, -1 if partition is None else partition

    return sorted({place for side in sides for place in side}, key=order)


def _last(passes: Sequence[PassEvent]) -> dict[Place, str]:
    return {(e.stage, e.method, e.partition): e.after for e in passes if e.after}


def _changed(
    a: Form, b: Form, nodes_a: Sequence[Node], nodes_b: Sequence[Node], pairing: Pairing
) -> list[NodeChange]:
    found = []
    for i, j in enumerate(pairing.to_b):
        if j < 0:
            continue
        read = [pairing.to_b[ref] if ref >= 0 else ref for ref in a.refs[i]]
        rewired = read != list(b.refs[j])
        if a.exact[i] == b.exact[j] and not rewired:
            continue
        changes = list(node_changes(nodes_a[i], nodes_b[j])) if a.exact[i] != b.exact[j] else []
        if rewired:
            changes += _rewired(a, b, i, j, read, pairing)
        if changes:
            place = NodeChange(
                a=place_of(nodes_a[i]),
                b=place_of(nodes_b[j]),
                paired_by=pairing.how[i],
                changes=tuple(changes),
            )
            found.append(((min(i, j), max(i, j), sorted((a.names[i], b.names[j]))), place))
    return [change for _, change in sorted(found, key=lambda item: item[0])]


def _rewired(a: Form, b: Form, i: int, j: int, read: list[int], pairing: Pairing) -> Iterator[Change]:
    """What a node reads that its partner does not; ``through`` where only nodes of one side are between."""
    left = [a.names[ref] if ref >= 0 else "" for ref in a.refs[i]]
    right = [b.names[ref] if ref >= 0 else "" for ref in b.refs[j]]
    if sorted(read) == sorted(b.refs[j]):
        yield Change(what="order of inputs", a=_listed(left), b=_listed(right))
        return
    places = range(max(len(left), len(right)))
    differ = [p for p in places if p >= len(read) or p >= len(right) or read[p] != b.refs[j][p]]
    own = (_only_of_a(a.refs[i], pairing, differ), _only_of_b(b.refs[j], pairing, differ))
    texts = [_listed([side[p] for p in differ if p < len(side)]) for side in (left, right)]
    yield Change(what="through" if any(own) else "inputs", a=texts[0], b=texts[1])


def _listed(names: list[str]) -> str:
    return ", ".join(name for name in names if name)


def _only_of_a(refs: tuple[int, ...], pairing: Pairing, places: list[int]) -> bool:
    return all(p >= len(refs) or refs[p] < 0 or pairing.to_b[refs[p]] < 0 for p in places)


def _only_of_b(refs: tuple[int, ...], pairing: Pairing, places: list[int]) -> bool:
    return all(p >= len(refs) or refs[p] < 0 or pairing.to_a[refs[p]] < 0 for p in places)
