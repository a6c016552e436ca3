"""Makes recordings of a size that real networks seldom reach, for timing what reads them.

A net of equal blocks (linear, gelu, residual add), quantised, with pass events of which every fifth changes
the encodings of a part of the nodes. The two recordings of a pair share no name, so that nothing can be told
from digests, and part at one pass; behind it every encoding differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from qnndbg.model.graph import Graph, Node, Origin, Output, QuantParams, Ref, Seq, TensorRef, TensorSpec
from qnndbg.model.recording import (
    Environment,
    Manifest,
    PassEvent,
    QnnGraph,
    QnnOp,
    QnnTensor,
    Stage,
)
from qnndbg.model.result import Comparison, Coverage, ErrorMetrics, LayerResult, Verdict
from qnndbg.recording.writer import Writer

SPEC = TensorSpec((1, 64), "float32")
PLAN: tuple[tuple[Stage, int], ...] = (
    ("export", 20),
    ("edge", 25),
    ("transform", 40),
    ("preprocess", 15),
    ("executorch", 0),
)
"""Stage and number of its passes."""
EVERY = 5
"""Of so many passes one changes the graph."""


def write_recording(folder: Path, *, nodes: int, prefix: str, parts_at: int) -> None:
    """Write a recording.

    Args:
        folder: where to.
        nodes: of each graph.
        prefix: of every name.
        parts_at: index of the event from which on it has encodings of its own; negative for never.
    """
    writer = Writer(folder)
    environment = Environment(qnndbg="0.1.0", python="3.11.9", host="Linux x86_64")
    writer.manifest(
        Manifest(target="large", precision="8a8w", soc="SM8650", environment=environment, complete=True)
    )
    graph = _net(nodes, prefix)
    digest = writer.graph(graph)
    for event in _events():
        before = digest
        if event.changed or event.index == parts_at:
            mine = 0 <= parts_at <= event.index
            graph = _requantised(graph, event.index, 1.5 if mine else 1.0)
            digest = writer.graph(graph)
        changed = event.changed or event.index == parts_at
        writer.pass_event(replace(event, before=before if event.name else "", after=digest, changed=changed))
    writer.qnn_graph(_qnn(graph, digest))
    writer.comparison(_comparison(graph))


def _events() -> Iterator[PassEvent]:
    index = 0
    for stage, count in PLAN:
        partition = 0 if stage == "preprocess" else None
        for number in range(count + 1):
            yield PassEvent(
                index=index,
                stage=stage,
                name=f"Pass{number}" if number else "",
                partition=partition,
                changed=number % EVERY == 1,
                seconds=0.01,
            )
            index += 1


def _net(count: int, prefix: str) -> Graph:
    nodes = [Node(name=f"{prefix}x", op="placeholder", target="x", outputs=(SPEC,), role="input")]
    last = nodes[0].name
    block = 0
    while len(nodes) + 6 < count:
        nodes += _block(f"{prefix}{block}_", last, block)
        last = nodes[-1].name
        block += 1
    value = Seq((Ref(last),))
    nodes.append(Node(name=f"{prefix}out", op="output", target="output", args=(value,)))
    return Graph(nodes=tuple(nodes), outputs=(Output(value=Ref(last)),))


def _block(prefix: str, source: str, number: int) -> list[Node]:
    origin = Origin(module_path=f"layers.{number}", module_class="Block", source=f"net.py:{len(prefix)}")
    weight = TensorRef(f"{number:032x}", "int8", (64, 64))
    held = Node(name=prefix + "w", op="placeholder", target="w", role="parameter", constant=weight)
    calls = (
        ("linear", "aten.linear.default", (Ref(source), Ref(prefix + "w"))),
        ("gelu", "aten.gelu.default", (Ref(prefix + "linear"),)),
        ("scaled", "aten.mul.Tensor", (Ref(prefix + "gelu"), 0.5)),
        ("add", "aten.add.Tensor", (Ref(prefix + "scaled"), Ref(source))),
        ("norm", "aten.relu.default", (Ref(prefix + "add"),)),
    )
    made = [
        Node(
            name=prefix + name,
            op="call_function",
            target=target,
            args=args,
            outputs=(SPEC,),
            origin=replace(origin, ancestors=(prefix + name,)),
            tensors=(f"{prefix}{name}@0",),
        )
        for name, target, args in calls
    ]
    return [held, *made]


def _requantised(graph: Graph, index: int, factor: float) -> Graph:
    nodes = [
        replace(node, encoding=_encoding((1 + i % 97 + index) * 1e-3 * factor))
        if node.op == "call_function" and (factor != 1.0 or i % 3 == index % 3)
        else node
        for i, node in enumerate(graph.nodes)
    ]
    return replace(graph, nodes=tuple(nodes))


def _encoding(scale: float) -> QuantParams:
    return QuantParams(scales=(scale,), zero_points=(128,), qmin=0, qmax=255, dtype="uint8")


def _qnn(graph: Graph, digest: str) -> QnnGraph:
    calls = [node for node in graph.nodes if node.op == "call_function"]
    tensors = [
        QnnTensor(
            name=f"{node.name}@0",
            kind="native",
            dtype="UFIXED_POINT_8",
            shape=(1, 64),
            encoding=node.encoding,
            node=node.name,
        )
        for node in calls
    ]
    ops = [
        QnnOp(
            name=node.name,
            type=node.target.split(".")[1],
            package="qti.aisw",
            inputs=tuple(f"{arg.node}@0" for arg in node.args if isinstance(arg, Ref)),
            outputs=(f"{node.name}@0",),
        )
        for node in calls
    ]
    return QnnGraph(method="forward", partition=0, graph=digest, ops=tuple(ops), tensors=tuple(tensors))


def _comparison(graph: Graph) -> Comparison:
    layers = tuple(_layer(node) for node in graph.nodes if node.op == "call_function")
    verdict = Verdict(kind="clean", text="clean", culprit="", next_step="")
    coverage = Coverage(compared=len(layers), total=len(layers), reasons={})
    return Comparison(verdict=verdict, ladder=(), layers=layers, coverage=coverage)


def _layer(node: Node) -> LayerResult:
    scale = node.encoding.scales[0] if node.encoding else 1e-3
    error = ErrorMetrics(
        sqnr_db=40.0 - scale,
        max_abs=scale,
        mean_abs=scale / 4,
        relative_l2=0.01,
        cosine=0.999,
        max_lsb=2.0,
        max_ulp=None,
        mismatched=9,
        nonfinite=0,
        elements=64,
    )
    return LayerResult(
        tensor=f"{node.name}@0",
        method="forward",
        partition=0,
        op=node.target,
        qnn_op=node.target.split(".")[1],
        module=node.origin.module_path,
        source=node.origin.source,
        created_by="",
        shape=(1, 64),
        dtype="UFIXED_POINT_8",
        reference_dtype="float32",
        encoding=node.encoding,
        reference_encoding=node.encoding,
        accumulated=error,
        local=error,
        reason="",
    )
