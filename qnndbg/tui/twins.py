"""The same value in another graph: found by QNN tensor, and by what it descends from."""

from __future__ import annotations

from qnndbg.analyze.descent import GETITEM
from qnndbg.tui.places import GraphAt, LayerAt, NodeAt, PageAt, PassAt, Place
from qnndbg.tui.state import Session
from qnndbg.tui.walk import Stop


def twin(session: Session, stop: Stop, here: GraphAt, there: GraphAt) -> str:
    """The name of a value in another graph; empty if nothing there stands for it.

    Args:
        session: which has both graphs.
        stop: the value.
        here: its graph.
        there: the other graph.
    """
    mine, other = session.staged(here), session.staged(there)
    if mine is None or other is None:
        return ""
    node = mine.named.get(stop.tensors[0] if here.stage == "qnn" and stop.tensors else stop.name)
    found = other.twin(node, mine) if node is not None else None
    if found is None:
        return ""
    if there.stage != "qnn":
        return found.name
    return next((name for name, s in session.walk(there).stops.items() if found.name in s.tensors), "")


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


def descendant(session: Session, at: GraphAt, stop: Stop) -> LayerAt | None:
    """The QNN tensor that a value of any stage became; of a constant, that of the op that reads it."""
    key = layer_of(session, at, stop)
    if key is not None or at.stage == "qnn":
        return key
    for partition in session.partitions.get(at.method, ()):
        name = twin(session, stop, at, GraphAt("qnn", at.method, partition))
        if (key := LayerAt(at.method, partition, name)) in session.layers:
            return key
    walk = session.walk(at)
    near = walk.users.get(stop.name, ()) if stop.kind == "weight" else ()
    near = stop.inputs if stop.op == GETITEM else near
    return next((k for n in near if (k := descendant(session, at, walk.stops[n])) is not None), None)
