"""A hand-made recording of a chain of ops with known faults, small for tests or large for the benchmark.

``hardswish`` of the first block makes an error of 100 steps at [0, 3, 2, 1] and ``gelu`` of the second one
of 40 steps at [0, 5, 0, 3]; every later value inherits both. ``BreakNumbers``, the 30th pass of transform,
is to blame for a change of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.model.attribution import Attribution, Effect, PassChange
from qnndbg.model.graph import Graph, Node, Origin, Output, QuantParams, Ref, TensorRef, TensorSpec
from qnndbg.model.recording import (
    Environment,
    Fallback,
    Input,
    Manifest,
    Method,
    PassEvent,
    Port,
    QnnGraph,
    QnnOp,
    QnnTensor,
    Run,
    RunnerName,
    Stage,
    Value,
)
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer

SHAPE = (1, 8, 4, 4)
STEP = 0.01
ZERO = 1000
CODE = QuantParams(scales=(STEP,), zero_points=(ZERO,), qmin=0, qmax=65535, dtype="uint16")
KINDS = (
    ("convolution", "Conv2d"),
    ("hardswish", "HardSwish"),
    ("relu", "Relu"),
    ("gelu", "Gelu"),
    ("add", "ElementWiseAdd"),
)
"""ATen name and QNN type of the ops of a block."""
Faults = Mapping[int, tuple[tuple[int, ...], int]]
FAULTS: Faults = {1: ((0, 3, 2, 1), 100), 8: ((0, 5, 0, 3), 40)}
"""Number of an op to the index and the steps of the error that it makes."""
STAGES: tuple[tuple[Stage, int], ...] = (
    ("annotation", 37),
    ("export", 20),
    ("transform", 35),
    ("preprocess", 6),
)
SPEC = TensorSpec(SHAPE, "float32")


def make(folder: Path, ops: int = 10, faults: Faults = FAULTS) -> Path:
    """Write the recording.

    Args:
        folder: where to.
        ops: length of the chain.
        faults: who makes which error.
    """
    writer = Writer(folder)
    given = writer.tensor(np.zeros(SHAPE, np.float32))
    writer.manifest(_manifest(given))
    _passes(writer, ops)
    graph = Graph(nodes=tuple(_nodes(ops, "edge", encoded=True, tensors=True)), outputs=_outputs(ops, "edge"))
    writer.qnn_graph(_qnn(writer.graph(graph), ops))
    _runs(writer, ops, faults)
    effects = tuple(_effect(i, share) for i, share in ((1, 0.86), (8, 0.14)) if i in faults and i < ops)
    writer.attribution(
        Attribution(step="backend", method="forward", error=1.077, signal=9.0, effects=effects)
    )
    writer.comparison(compare(open_recording(folder)))
    return folder


def kind(number: int) -> tuple[str, str]:
    """ATen name and QNN type of an op."""
    return KINDS[number % len(KINDS)]


def node_name(number: int, naming: str) -> str:
    """What an op is called in the exported graph, or in the edge graph."""
    name = f"{kind(number)[0]}_{number}"
    return name if naming == "export" else f"aten_{name}"


def tensor_name(number: int) -> str:
    """What QNN calls the output of an op."""
    return f"aten_{kind(number)[0]}_{number}@0"


def module(number: int) -> str:
    """The module that an op belongs to."""
    return f"encoder.block{number // len(KINDS)}.{kind(number)[0]}"


def _manifest(given: TensorRef) -> Manifest:
    port = Port(shape=SHAPE, dtype="float32")
    fallback = Fallback(node="embedding_0", op="aten.embedding.default", reason="not supported")
    return Manifest(
        target="net.py:make",
        precision="16a8w",
        soc="SM8650",
        environment=Environment(
            qnndbg="0.1.0",
            python="3.11.9",
            host="Linux x86_64",
            packages={"torch": "2.13.0", "executorch": "1.5.1"},
            qnn_build="v2.49.40",
        ),
        complete=True,
        inputs=(Input(name="x", tensor=given),),
        methods=(
            Method(name="forward", inputs=(port,), outputs=(port,), partitions=1, fallbacks=(fallback,)),
        ),
    )


def _nodes(ops: int, naming: str, *, encoded: bool = False, tensors: bool = False) -> Iterator[Node]:
    yield Node(name="x", op="placeholder", target="x", outputs=(SPEC,), role="input")
    before = "x"
    for i in range(ops):
        name = node_name(i, naming)
        args: tuple[Ref | str, ...] = (Ref(before), Ref("x")) if kind(i)[0] == "add" else (Ref(before),)
        yield Node(
            name=name,
            op="call_function",
            target=f"aten.{kind(i)[0]}.default",
            args=args,
            outputs=(SPEC,),
            encoding=CODE if encoded else None,
            tensors=(tensor_name(i),) if tensors else (),
            origin=Origin(
                ancestors=(node_name(i, "export"),),
                module_path=module(i),
                source=f"net.py:{3 + i % len(KINDS)}",
            ),
        )
        before = name


def _outputs(ops: int, naming: str) -> tuple[Output, ...]:
    return (Output(value=Ref(node_name(ops - 1, naming))),)


def _graphs(ops: int) -> dict[str, list[Graph]]:
    """The graphs of each stage: what it begins with, and what each pass that changes something makes."""
    export = Graph(nodes=tuple(_nodes(ops, "export")), outputs=_outputs(ops, "export"))
    edge = Graph(nodes=tuple(_nodes(ops, "edge")), outputs=_outputs(ops, "edge"))
    coded = Graph(nodes=tuple(_nodes(ops, "edge", encoded=True)), outputs=edge.outputs)
    clamp = Node(
        name="clamp_0",
        op="call_function",
        target="aten.clamp.default",
        args=(Ref("x"), 0.0, 6.0),
        outputs=(SPEC,),
    )
    clamped = replace(coded, nodes=(*coded.nodes[:3], clamp, *coded.nodes[3:]))
    return {
        "annotation": [export],
        "export": [export],
        "transform": [edge, coded, clamped, coded],
        "preprocess": [coded],
    }


CHANGING = {
    ("transform", 24): "AnnotateQuantAttrs",
    ("transform", 29): "BreakNumbers",
    ("transform", 33): "MendNumbers",
}


def _passes(writer: Writer, ops: int) -> None:
    index = 0
    for stage, count in STAGES:
        digests = [writer.graph(graph) for graph in _graphs(ops)[stage]]
        partition = 0 if stage == "preprocess" else None
        writer.pass_event(PassEvent(index=index, stage=stage, name="", partition=partition, after=digests[0]))
        at = 0
        for number in range(count):
            index += 1
            name = CHANGING.get((stage, number), "")
            event = PassEvent(
                index=index,
                stage=stage,
                name=name or f"Quiet{number}",
                partition=partition,
                before=digests[at],
                after=digests[at + bool(name)],
                changed=bool(name),
                claimed_modified=number % 2 == 0,
                seconds=0.001 * (number + 1),
            )
            at += bool(name)
            writer.pass_event(event)
            if name == "BreakNumbers":
                change = PassChange(
                    after="export", before="transform", method="forward", event=index, stage=stage, name=name,
                    digests=(event.before, event.after),
                )  # fmt: skip
                writer.pass_change(change)
        index += 1
    last = writer.graph(_graphs(ops)["transform"][0])
    writer.pass_event(PassEvent(index=index, stage="executorch", name="", after=last))


def _qnn(graph: str, ops: int) -> QnnGraph:
    names = ["input_0_x@0", *(tensor_name(i) for i in range(ops))]
    tensors = [QnnTensor(name=names[0], kind="input", dtype="FLOAT_32", shape=SHAPE, node="x")]
    tensors += [
        QnnTensor(
            name=tensor_name(i),
            kind="output" if i == ops - 1 else "native",
            dtype="UFIXED_POINT_16",
            shape=SHAPE,
            encoding=CODE,
            node=node_name(i, "edge"),
        )
        for i in range(ops)
    ]
    made = tuple(
        QnnOp(
            name=f"op_{i}",
            type=kind(i)[1],
            package="qti.aisw",
            inputs=(names[i], names[0]) if kind(i)[0] == "add" else (names[i],),
            outputs=(names[i + 1],),
            params={"group": "1"} if kind(i)[0] == "convolution" else {},
        )
        for i in range(ops)
    )
    return QnnGraph(method="forward", partition=0, graph=graph, ops=made, tensors=tuple(tensors))


def values(number: int, faults: Faults = FAULTS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the CPU has, what the CPU makes of the HTP's inputs, and the HTP's integers."""
    rng = np.random.default_rng(number % 16)
    integers = rng.integers(ZERO - 300, ZERO + 300, SHAPE)
    integers[0, 0, 0, 0] = 65535  # one of 128 is at the end of its range
    htp, own = integers.copy(), np.zeros(SHAPE, np.int64)
    for maker, (index, steps) in faults.items():
        if number >= maker:
            htp[index] += steps
        if number == maker:
            own[index] += steps
    reference, local = (((v - ZERO).astype(np.float32) * np.float32(STEP)) for v in (integers, htp - own))
    return reference, local, htp.astype(np.uint16)


def _runs(writer: Writer, ops: int, faults: Faults) -> None:
    kept: dict[tuple[int, bool, bool, bool], tuple[TensorRef, ...]] = {}
    found: dict[RunnerName, list[Value]] = {"reference": [], "local": [], "htp-tapped": []}
    for i in range(ops):
        key = (i % 16, i in FAULTS, i >= 1, i >= 8)
        if key not in kept:
            kept[key] = tuple(writer.tensor(side) for side in values(i, faults))
        for side, ref in zip(found.values(), kept[key], strict=True):
            floor = 0.29 * STEP if side is found["local"] else None
            side.append(Value(name=tensor_name(i), partition=0, tensor=ref, floor=floor))
    reference, _, htp = values(ops - 1, faults)
    quantised, final = (
        writer.tensor(reference),
        writer.tensor((htp.astype(np.float32) - ZERO) * np.float32(STEP)),
    )
    eager = writer.tensor(
        reference + np.float32(STEP / 4) * (np.arange(128).reshape(SHAPE) % 2).astype(np.float32)
    )
    results: dict[RunnerName, TensorRef] = {
        "eager": eager, "quantized": quantised, "export": quantised, "transform": quantised,
        "reference": quantised, "htp-tapped": final, "htp": final,
    }  # fmt: skip
    for runner, result in results.items():
        writer.run(Run(runner=runner, results=(result,), values=tuple(found.get(runner, ()))))
    writer.run(Run(runner="local", values=tuple(found["local"])))


def _effect(number: int, share: float) -> Effect:
    return Effect(
        kind="op",
        name=tensor_name(number),
        node=node_name(number, "edge"),
        partition=0,
        op=f"aten.{kind(number)[0]}.default",
        module=module(number),
        source=f"net.py:{3 + number % len(KINDS)}",
        error=FAULTS[number][1] * STEP / 128**0.5,
        floor=0.29 * STEP,
        signal=2.0,
        linear=share,
    )
