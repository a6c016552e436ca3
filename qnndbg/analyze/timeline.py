"""The dtype, encoding and error of one value at every stage, from the float model to the program.

Stages are joined by what computes the same value in each; see :mod:`qnndbg.analyze.descent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from qnndbg.analyze.delegates import delegate_outputs
from qnndbg.analyze.descent import GETITEM, Staged, kind
from qnndbg.analyze.verdict import SAME_NUMBERS_DB
from qnndbg.model.graph import Arg, Atom, Graph, Node, QuantParams, Ref
from qnndbg.model.recording import QnnGraph, QnnTensor, Stage
from qnndbg.recording.store import Recording

STAGES: tuple[Stage, ...] = ("annotation", "quantized", "export", "edge", "transform")
"""Those with a graph of the whole method, in their order."""

MEASURED = {"reference": "preprocess", "htp-tapped": "qnn"}
"""Rungs to the stages that they execute, where the names differ."""


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value at one stage."""

    stage: str
    """Of the lowering; then ``qnn``, and ``program`` where the value is an output of the method."""
    name: str
    """What stands for it there."""
    op: str = ""
    dtype: str = ""
    shape: tuple[int | str, ...] = ()
    encoding: QuantParams | None = None
    axis_order: tuple[int, ...] | None = None
    against_eager: float | None = None
    """SQNR in dB of the first sample's value, where eager has it too."""
    against_previous: float | None = None
    """The same against the stage before that has the value: what this one added."""

    @property
    def worsens(self) -> bool:
        """Whether the stage changed the numbers, by more than the order of float32 additions does."""
        return self.against_previous is not None and self.against_previous < SAME_NUMBERS_DB


def timeline(recording: Recording, method: str, partition: int, tensor: str) -> tuple[Step, ...]:
    """Follow a QNN tensor back to the model and forward to the program.

    Args:
        recording: with the graphs of all stages; one that is missing is left out.
        method: of the tensor.
        partition: of the tensor.
        tensor: its QNN name.

    Raises:
        KeyError: there is no such tensor.
    """
    qnn = {(graph.method, graph.partition): graph for graph in recording.qnn}[method, partition]
    found = {t.name: t for t in qnn.tensors}[tensor]
    last = recording.graph(qnn.graph)
    node = next((n for n in last.nodes if n.name == found.node), None)
    steps = list(_stages(recording, method, last, node, found.output)) if node is not None else []
    if node is not None:
        steps.append(_step("preprocess", node, found.output))
    steps.append(
        Step(
            stage="qnn", name=tensor, op=_maker(qnn, tensor), dtype=found.dtype, shape=found.shape,
            encoding=found.encoding,
        )
    )  # fmt: skip
    measured = _measured(recording, method, partition, tensor)
    steps = [structs.replace(step, **measured.get(step.stage, {})) for step in steps]
    return (*steps, *_ports(recording, method, qnn, found))


def encodings_of_export(recording: Recording, method: str) -> Mapping[str, QuantParams]:
    """The encoding of each op of the quantised model, by the op's name in the exported graph."""
    graph = recording.first_graph("export", method)
    return explicit_encodings(graph) if graph is not None else {}


def _measured(
    recording: Recording, method: str, partition: int, tensor: str
) -> dict[str, dict[str, float | None]]:
    """Stage to what the ladder of the layer says of it."""
    ladder = recording.layer_ladder(method)
    layers = ladder.layers if ladder is not None else ()
    layer = next((one for one in layers if (one.partition, one.tensor) == (partition, tensor)), None)
    if ladder is None or layer is None:
        return {}
    return {
        MEASURED.get(rung, rung): {"against_eager": eager, "against_previous": previous}
        for rung, eager, previous in zip(
            ladder.rungs, layer.against_eager, layer.against_previous, strict=True
        )
    }


def _stages(recording: Recording, method: str, last: Graph, node: Node, output: int) -> Iterator[Step]:
    exported = recording.first_graph("export", method)
    here = Staged("preprocess", last, exported)
    part = here.is_part(node)
    for stage in STAGES:
        graph = recording.last_graph(stage, method)
        twin = Staged(stage, graph, exported).twin(node, here) if graph is not None else None
        if twin is None or graph is None:
            continue
        encoding = twin.encoding or explicit_encodings(graph).get(_picked(graph, twin, output))
        # What a part of an op computes is not the value whose encoding stands there.
        of_other = part and kind(twin) != kind(node)
        yield _step(stage, twin, output, None if of_other else encoding)


def _picked(graph: Graph, node: Node, output: int) -> str:
    """The node whose value is an output of a node: itself, or what picks it of several."""
    for reader in graph.nodes if node.multiple else ():
        if reader.target == GETITEM and reader.args == (Ref(node.name), output):
            return reader.name
    return node.name


def _step(stage: str, node: Node, output: int, encoding: QuantParams | None = None) -> Step:
    # An op's last output where this stage's op has fewer than the later one.
    spec = node.outputs[min(output, len(node.outputs) - 1)] if node.outputs else None
    return Step(
        stage=stage,
        name=node.name,
        op=node.target if node.op == "call_function" else node.op,
        dtype=spec.dtype if spec is not None else "",
        shape=spec.shape if spec is not None else (),
        encoding=node.encoding or encoding,
        axis_order=node.axis_order,
    )


def _maker(qnn: QnnGraph, tensor: str) -> str:
    return next((op.type for op in qnn.ops if tensor in op.outputs), "")


def _ports(recording: Recording, method: str, qnn: QnnGraph, tensor: QnnTensor) -> Iterator[Step]:
    """The outputs of the program that hand the value out."""
    outer = recording.last_graph("partition", method)
    ports = next((m.outputs for m in recording.manifest.methods if m.name == method), ())
    if outer is None:
        return
    outputs = recording.graph(qnn.graph).outputs
    for number, origin in enumerate(delegate_outputs(outer)):
        if origin is None or origin[0] != qnn.partition or number >= len(ports):
            continue
        value, port = outputs[origin[1]].value, ports[number]
        if isinstance(value, Ref) and value.node == tensor.node and port is not None:
            yield Step(stage="program", name=f"output {number}", dtype=port.dtype, shape=port.shape)


def explicit_encodings(graph: Graph) -> dict[str, QuantParams]:
    """Encodings that stand in quantise nodes, by the name of the node whose value they round."""
    found: dict[str, QuantParams] = {}
    for node in graph.nodes:
        if ".quantize_per_tensor" not in node.target or not isinstance(node.args[0], Ref):
            continue
        encoding = _encoding(node.args[1:])
        if encoding is not None:
            found.setdefault(node.args[0].node, encoding)
    return found


def _encoding(args: tuple[Arg, ...]) -> QuantParams | None:
    scale, zero_point, low, high, dtype = args
    if not isinstance(scale, float) or not all(isinstance(v, int) for v in (zero_point, low, high)):
        return None
    return QuantParams(
        scales=(scale,),
        zero_points=(int(zero_point),),  # type: ignore[arg-type]
        qmin=int(low),  # type: ignore[arg-type]
        qmax=int(high),  # type: ignore[arg-type]
        dtype=dtype.text.removeprefix("torch.") if isinstance(dtype, Atom) else "",
    )
