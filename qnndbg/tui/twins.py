"""The same value in another graph: found by QNN tensor, by name, or by the node that it descends from."""

from __future__ import annotations

from qnndbg.tui.places import GraphAt, LayerAt, NodeAt, PageAt, PassAt, Place
from qnndbg.tui.state import Session
from qnndbg.tui.walk import Stop, Walk


def twin(stop: Stop, here: GraphAt, there: GraphAt, walk: Walk) -> str:
    """The name of a value in another graph; empty if nothing there stands for it.

    Args:
        stop: the value.
        here: its graph.
        there: the other graph.
        walk: the other graph, to walk in.
    """
    node = stop.tensors[0] if here.stage == "qnn" and stop.tensors else stop.name
    if there.stage == "qnn":
        names = (name for name, other in walk.stops.items() if node in other.tensors or name == stop.name)
        return next(names, "")
    if node in walk.stops:
        return node
    for ancestor in reversed(stop.ancestors):
        if ancestor in walk.stops:
            return ancestor
    alike = [o for o in walk.stops.values() if _related(stop, o)]
    return next((o.name for o in alike if o.op == stop.op), alike[-1].name if alike else "")


def _related(stop: Stop, other: Stop) -> bool:
    if not other.ancestors:
        return False
    descends = other.ancestors[-1] == stop.name
    return descends or (bool(stop.ancestors) and other.ancestors == stop.ancestors)


def find(session: Session, name: str) -> GraphAt | None:
    """The first graph with a node of that name, the one before to_backend first of all."""
    order = ("transform", "preprocess", "quantized", "export", "edge", "partition", "qnn", "annotation")
    graphs = [g for g in session.graphs if g.stage in order]
    for at in sorted(graphs, key=lambda g: order.index(g.stage)):
        if name in session.walk(at).stops:
            return at
    return None


def called(session: Session, name: str) -> str:
    """The node of that name, or that of a parameter with that path; the name itself if there is neither."""
    plain = name.replace(".", "_")
    names = (name, *(f"{prefix}{plain}" for prefix in ("p_", "b_", "c_", "")))
    return next((node for node in names if find(session, node) is not None), name)


def failing(session: Session) -> Place:
    """Where a recording broke off: its node, the op that the verdict names, the pass, or the stage."""
    manifest, passes = session.recording.manifest, session.recording.passes
    failure = manifest.failure
    names = [] if failure is None or failure.node is None else failure.node.name.split(", ")
    blamed = session.answer.verdict.op.split(", ")
    names += [f.node for method in manifest.methods for f in method.fallbacks if f.op in blamed]
    for name in names:
        if (at := find(session, name)) is not None:
            return NodeAt(name, at)
    stage = "" if failure is None else failure.stage
    broken = [i for i, event in enumerate(passes) if event.error]
    of_stage = [i for i, event in enumerate(passes) if event.name and event.stage == stage]
    return PassAt((broken or of_stage)[-1]) if broken or of_stage else PageAt("passes")


def layer_of(session: Session, at: GraphAt, stop: Stop) -> LayerAt | None:
    """The QNN tensor that a value became, if it is one that is known."""
    if at.stage == "qnn":
        key = LayerAt(at.method, at.partition or 0, stop.name)
        return key if key in session.layers else None
    wanted = session.partitions.get(at.method, ()) if at.partition is None else (at.partition,)
    for tensor in stop.tensors:
        for partition in wanted:
            if LayerAt(at.method, partition, tensor) in session.layers:
                return LayerAt(at.method, partition, tensor)
    return session.named.get(stop.name) if at.stage in {"transform", "preprocess"} else None
