"""Hand-made lowerings: graphs in a few lines, and recordings of the passes that they went through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from msgspec.structs import replace

from qnndbg.model.graph import (
    Arg,
    Graph,
    Node,
    Origin,
    Output,
    QuantParams,
    Ref,
    Seq,
    Slice,
    TensorRef,
    TensorSpec,
)
from qnndbg.model.recording import Input, PassEvent, QnnGraph, QnnOp, QnnTensor, Run, Stage
from qnndbg.model.result import Comparison
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer
from tests.unit.recordings import manifest

SPEC = TensorSpec((1, 4), "float32")
Step = tuple[str, str, Graph | None] | tuple[str, str, Graph | None, dict[str, Any]]
"""Stage, pass, the graph that it leaves (None: that which it got), and fields of the event."""


def encoding(scale: float = 0.1, zero_point: int = 3) -> QuantParams:
    return QuantParams(scales=(scale,), zero_points=(zero_point,), qmin=0, qmax=255, dtype="uint8")


def held(name: str, number: int = 0, **fields: Any) -> Node:
    """A weight; its bytes are a number."""
    constant = TensorRef(f"{number:032x}", "float32", (4, 4))
    return Node(name=name, op="placeholder", target=name, role="parameter", constant=constant, **fields)


def call(name: str, op: str, *args: Arg, module: str = "", ancestor: str = "", **fields: Any) -> Node:
    """A call of an ATen op of the default overload; names among the arguments are nodes."""
    origin = Origin(module_path=module, ancestors=(ancestor,) if ancestor else ())
    made = Node(
        name=name,
        op="call_function",
        target=f"aten.{op}.default",
        args=tuple(Ref(arg) if isinstance(arg, str) else arg for arg in args),
        outputs=(SPEC,),
        origin=origin,
    )
    return replace(made, **fields)


def net(*nodes: Node, results: Sequence[str] = ()) -> Graph:
    """A graph with one input x, that gives its last node or those that are named."""
    given = Node(name="x", op="placeholder", target="x", outputs=(SPEC,), role="input")
    values = [Ref(name) for name in results or [nodes[-1].name]]
    end = Node(name="output", op="output", target="output", args=(Seq(tuple(values)),))
    return Graph(nodes=(given, *nodes, end), outputs=tuple(Output(value=value) for value in values))


def plain() -> Graph:
    """Linear, relu, add."""
    return net(
        held("w", 1),
        call("linear", "linear", "x", "w", module="first"),
        call("relu", "relu", "linear", encoding=encoding()),
        call("add", "add", "relu", "x"),
    )


def edited(graph: Graph, name: str, **fields: Any) -> Graph:
    """The graph with fields of one node changed."""
    return replace(graph, nodes=tuple(replace(n, **fields) if n.name == name else n for n in graph.nodes))


def renamed(graph: Graph, names: dict[str, str]) -> Graph:
    """The graph with other names, everywhere."""

    def arg(value: Arg) -> Arg:
        if isinstance(value, Ref):
            return Ref(names.get(value.node, value.node))
        if isinstance(value, Seq):
            return Seq(tuple(map(arg, value.items)))
        return Slice(*map(arg, (value.start, value.stop, value.step))) if isinstance(value, Slice) else value

    nodes = tuple(
        replace(
            node,
            name=names.get(node.name, node.name),
            args=tuple(map(arg, node.args)),
            kwargs={key: arg(value) for key, value in node.kwargs.items()},
            requantize={names.get(user, user): params for user, params in node.requantize.items()},
        )
        for node in graph.nodes
    )
    outputs = tuple(
        replace(o, value=arg(o.value), target=names.get(o.target, o.target)) for o in graph.outputs
    )
    return replace(graph, nodes=nodes, outputs=outputs)


def qnn_graph(graph: Graph, digest: str) -> QnnGraph:
    """What a partition became if each call is one op of one output."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    tensors = [
        QnnTensor(
            name=f"{node.name}@0",
            kind="native",
            dtype="UFIXED_POINT_8" if node.encoding else "FLOAT_16",
            shape=(1, 4),
            encoding=node.encoding,
            node=node.name,
        )
        for node in calls
    ]
    ops = [
        QnnOp(
            name=node.name,
            type=node.target.split(".")[1].title(),
            package="qti.aisw",
            inputs=tuple(f"{arg.node}@0" for arg in node.args if isinstance(arg, Ref)),
            outputs=(f"{node.name}@0",),
        )
        for node in calls
    ]
    return QnnGraph(method="forward", partition=0, graph=digest, ops=tuple(ops), tensors=tuple(tensors))


def lowering(
    folder: Path,
    steps: Iterable[Step],
    *,
    results: dict[str, Sequence[float]] | None = None,
    given: Sequence[float] = (1.0, 2.0),
    comparison: Comparison | None = None,
    qnn: bool = False,
    **page: Any,
) -> Recording:
    """A recording of a lowering.

    Args:
        folder: where to.
        steps: the passes.
        results: runner to what it gives.
        given: the input.
        comparison: if there is one.
        qnn: each call of the partition's last graph became a QNN op.
        page: fields of the front page.
    """
    writer = Writer(folder)
    tensor = writer.tensor(np.array(given, np.float32))
    fields = {"inputs": (Input(name="x", tensor=tensor),), "complete": True, **page}
    writer.manifest(manifest(**fields))
    last: dict[int | None, str] = {}
    for index, step in enumerate(steps):
        stage, name, graph, more = step if len(step) == 4 else (*step, {})
        partition = 0 if stage == "preprocess" else None
        before = last.get(partition, "") if name else ""
        after = writer.graph(graph) if graph else last.get(partition, "")
        event = PassEvent(
            index=index,
            stage=cast("Stage", stage),
            name=name,
            partition=partition,
            before=before,
            after=after,
            changed=bool(name) and before != after,
        )
        writer.pass_event(replace(event, **more))
        last[partition] = after
    for runner, values in (results or {}).items():
        ref = writer.tensor(np.array(values, np.float32))
        writer.run(Run(runner=cast("Any", runner), results=(ref,)))
    if qnn:
        writer.qnn_graph(qnn_graph(open_recording(folder).graph(last[0]), last[0]))
    if comparison is not None:
        writer.comparison(comparison)
    return open_recording(folder)
