"""Compares the HTP with the CPU, QNN tensor by QNN tensor, and leaves none out in silence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from qnndbg.analyze import given
from qnndbg.analyze.causes import sources_of
from qnndbg.analyze.ladder import climb
from qnndbg.analyze.lost import lost_parts
from qnndbg.analyze.metrics import measure
from qnndbg.analyze.nonfinite import nonfinite_of
from qnndbg.analyze.normalize import same_rank, step_of, value_on_cpu, value_on_htp
from qnndbg.analyze.payload import payloads_of
from qnndbg.analyze.places import places_of
from qnndbg.analyze.rules import find
from qnndbg.analyze.rules.context import Context
from qnndbg.analyze.touched import touched
from qnndbg.analyze.verdict import Evidence, GuiltyPass, judge
from qnndbg.analyze.view import refs
from qnndbg.analyze.wording import failed, not_delegated
from qnndbg.model.attribution import Attribution, Effect, PassChange
from qnndbg.model.graph import Node, Origin, QuantParams, Ref, TensorRef
from qnndbg.model.limits import FP16_MAX
from qnndbg.model.recording import QnnGraph, QnnOp, QnnTensor, Run, RunnerName, is_half
from qnndbg.model.result import Comparison, Coverage, ErrorMetrics, LayerResult, Source, Verdict
from qnndbg.recording.parts import check_parts
from qnndbg.recording.store import Recording

Effects = Mapping[tuple[str, int | None, str], Effect]
SIDES: tuple[RunnerName, ...] = ("reference", "local", "htp-tapped", "held")


def compare(recording: Recording) -> Comparison:
    """Compare everything that a recording holds.

    Args:
        recording: with the runs ``reference``, ``local`` and ``htp-tapped`` where the tap worked.

    Raises:
        RecordingError: parts of it are damaged, or do not fit one another.
    """
    check_parts(recording)
    effects = _effects(recording)
    layers = tuple(layer for graph in recording.qnn for layer in _layers(recording, graph, effects))
    coverage = _coverage(layers)
    ladder = climb(recording)
    found = _sources(recording)
    evidence = Evidence(
        ladder=ladder,
        layers=layers,
        coverage=coverage,
        precision=recording.manifest.precision,
        sources=found,
        payloads=payloads_of(recording),
        changes=_guilty_passes(recording),
        input_notes=tuple(f"{i.name}: {i.note}" for i in recording.manifest.inputs if i.strides),
        nonfinite=nonfinite_of(recording, ladder),
        lost=lost_parts(recording),
    )
    return Comparison(
        verdict=_verdict(recording, evidence),
        ladder=ladder,
        layers=layers,
        coverage=coverage,
        sources=found,
        findings=find(Context(recording, evidence)),
    )


def _verdict(recording: Recording, evidence: Evidence) -> Verdict:
    manifest = recording.manifest
    fallbacks = [fallback for method in manifest.methods for fallback in method.fallbacks]
    if manifest.failure is not None and not evidence.coverage.compared:
        return failed(manifest.failure, recording.passes, fallbacks)
    if manifest.methods and not recording.qnn:
        return not_delegated(fallbacks)
    return judge(evidence)


def _guilty_passes(recording: Recording) -> tuple[GuiltyPass, ...]:
    return tuple(_guilty_pass(recording, change) for change in recording.pass_changes if all(change.digests))


def _guilty_pass(recording: Recording, change: PassChange) -> GuiltyPass:
    before, after = (recording.graph(digest) for digest in change.digests)
    node = next((node for node in after.nodes if node.name == change.node), None)
    readers = (n for n in after.nodes if n.op == "call_function" and Ref(change.node) in n.args)
    return GuiltyPass(change=change, touched=touched(before, after), node=node, reader=next(readers, None))


def _effects(recording: Recording) -> dict[tuple[str, int | None, str], Effect]:
    """Method, partition and QNN tensor to the effect on the output that the backend changes most."""
    found: dict[tuple[str, int | None, str], Effect] = {}
    backend = [a for a in recording.attributions if a.step == "backend" and a.sample == 0]
    for attribution in sorted(backend, key=_relative):
        for effect in attribution.effects:
            found[attribution.method, effect.partition, effect.name] = effect
    return found


def _relative(attribution: Attribution) -> float:
    return attribution.error / attribution.signal if attribution.signal else math.inf


def _sources(recording: Recording) -> tuple[Source, ...]:
    """The sources of each output that a step changes; the step and the output that change most come first."""
    places = {
        (step, method): places_of(recording, step, method)
        for step, method in {(a.step, a.method) for a in recording.attributions}
    }
    most: dict[str, float] = {}
    for attribution in recording.attributions:
        most[attribution.step] = max(most.get(attribution.step, 0.0), _relative(attribution))
    worst_first = sorted(recording.attributions, key=lambda a: (-most[a.step], a.step, -_relative(a)))
    return tuple(source for a in worst_first for source in sources_of(a, places[a.step, a.method]))


@dataclass(frozen=True, slots=True)
class _Side:
    """The values of one run inside one partition."""

    values: dict[str, TensorRef]
    problems: dict[str, str]
    floors: dict[str, tuple[float, float | None]]


def _layers(recording: Recording, graph: QnnGraph, effects: Effects) -> list[LayerResult]:
    nodes = {node.name: node for node in recording.graph(graph.graph).nodes}
    sides = {name: _side(recording.run(name, graph.method), graph.partition) for name in SIDES}
    makers = {name: op for op in graph.ops for name in op.outputs}
    order = [name for op in graph.ops for name in op.outputs]
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    unmade = [name for name in tensors if name not in makers]
    overflows = frozenset(
        effect.node
        for (method, partition, _), effect in effects.items()
        if (method, partition) == (graph.method, graph.partition) and effect.half and effect.peak > FP16_MAX
    )
    return [
        _Layer(
            recording,
            graph,
            tensors[name],
            makers.get(name),
            nodes,
            sides,
            recording.run("held", graph.method),
            effects.get((graph.method, graph.partition, name)),
            overflows,
        ).result()
        for name in (*order, *unmade)
    ]


def _side(run: Run | None, partition: int) -> _Side:
    if run is None:
        return _Side({}, {}, {})
    values = [value for value in run.values if value.partition == partition]
    return _Side(
        {value.name: value.tensor for value in values},
        run.problems,
        {value.name: (value.floor, value.peak_floor) for value in values if value.floor is not None},
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """One QNN tensor with all that is known of it."""

    recording: Recording
    graph: QnnGraph
    tensor: QnnTensor
    maker: QnnOp | None
    nodes: dict[str, Node]
    sides: dict[RunnerName, _Side]
    held: Run | None
    """Inputs and constants as the HTP holds them."""
    effect: Effect | None
    overflows: frozenset[str]
    """The nodes whose values half floats cannot hold."""

    def result(self) -> LayerResult:
        tensor, node = self.tensor, self.nodes.get(self.tensor.node)
        spec = node.outputs[tensor.output] if node is not None and tensor.output < len(node.outputs) else None
        reason = self._reason(node)
        accumulated = local = None
        if not reason and self.maker is None:
            local = self._given_error()
        elif not reason:
            accumulated, local = self._errors("reference"), self._errors("local")
        if not reason and accumulated is None and local is None:
            reason = "shape differs from the CPU's"
        origin = self._origin(node)
        floor, peak_floor = self.sides["local"].floors.get(tensor.name, (None, None))
        if self.maker is None and not reason:
            floor = floor or 0.0
        qnn_op = self.maker.type if self.maker is not None else ""
        return LayerResult(
            tensor=tensor.name,
            method=self.graph.method,
            partition=self.graph.partition,
            op=node.target if node is not None and node.op == "call_function" else qnn_op,
            qnn_op=qnn_op,
            module=origin.module_path if origin is not None else "",
            source=origin.source if origin is not None else "",
            created_by=origin.created_by if origin is not None else "",
            shape=tensor.shape,
            dtype=tensor.dtype,
            reference_dtype=spec.dtype if spec is not None else "",
            encoding=tensor.encoding or (tensor.held.encoding if tensor.held is not None else None),
            reference_encoding=self._reference_encoding(node),
            accumulated=accumulated,
            local=local,
            reason=reason,
            floor=floor,
            peak_floor=peak_floor,
            effect=None if self.effect is None else self.effect.share,
            fused=self.effect is not None and self.effect.fused,
            given=given.given_as(tensor, node) if self.maker is None else "",
            overflowed=node is not None and not self.overflows.isdisjoint(refs(node)),
        )

    def _reason(self, node: Node | None) -> str:
        """Why nothing can be compared; empty if something can."""
        if self.maker is None:
            return given.reason_of(self.tensor, node, self.held)
        if not any(self.sides["htp-tapped"].values):
            return "intermediates were not dumped"
        if node is None:
            return f"made inside the builder of {self.maker.type}; no graph node stands for it"
        if self.tensor.output >= max(len(node.outputs), 1):
            return f"scratch tensor inside {self.maker.type}"
        if self.tensor.name not in self.sides["htp-tapped"].values:
            return self.sides["htp-tapped"].problems.get(self.tensor.name, "not dumped by the backend")
        if (
            self.tensor.name not in self.sides["reference"].values
            and self.tensor.name not in self.sides["local"].values
        ):
            problem = self.sides["reference"].problems.get(node.name, "no reason was noted")
            return f"the CPU could not evaluate it: {problem}"
        return ""

    def _origin(self, node: Node | None) -> Origin | None:
        """Of a constant, where the op comes from that reads it."""
        if node is None or node.constant is None:
            return node.origin if node is not None else None
        readers = (other for other in self.nodes.values() if Ref(node.name) in other.args)
        return next((reader.origin for reader in readers), node.origin)

    def _given_error(self) -> ErrorMetrics | None:
        reference, held = (self.sides[side].values.get(self.tensor.name) for side in ("local", "held"))
        return given.error_of(self.recording, self.tensor, reference, held)

    def _errors(self, side: RunnerName) -> ErrorMetrics | None:
        ref = self.sides[side].values.get(self.tensor.name)
        if ref is None:
            return None
        half = is_half(self.recording.manifest.precision)
        reference = value_on_cpu(self.recording.tensor(ref), ref.dtype, half=half)
        if reference is None:
            return None
        dumped = self.recording.tensor(self.sides["htp-tapped"].values[self.tensor.name])
        target = same_rank(reference, value_on_htp(dumped, self.tensor.encoding, half=half))
        if target.shape != reference.shape:
            return None
        encoding = self._unit()
        step = None if encoding is None else step_of(encoding, reference.ndim)
        fp16 = encoding is None and self.tensor.dtype.startswith("FLOAT")
        return measure(reference, target, step=step, fp16=fp16)

    def _unit(self) -> QuantParams | None:
        """The encoding whose steps the error is counted in: its own, or what a dequantise op reads."""
        if self.tensor.encoding is not None:
            return self.tensor.encoding
        node = self.nodes[self.tensor.node]
        source = node.args[0] if node.args and ".dequantize_" in node.target else None
        return self.nodes[source.node].encoding if isinstance(source, Ref) else None

    def _reference_encoding(self, node: Node | None) -> QuantParams | None:
        if node is None or not node.multiple:
            return node.encoding if node is not None else None
        for other in self.nodes.values():
            if other.target == "operator.getitem" and other.args == (Ref(node.name), self.tensor.output):
                return other.encoding
        return None


def _coverage(layers: tuple[LayerResult, ...]) -> Coverage:
    """The tensors that ops compute, and apart from them what ops are given."""
    computed = [layer for layer in layers if layer.qnn_op]
    others = [layer for layer in layers if not layer.qnn_op]
    return Coverage(
        compared=sum(not layer.reason for layer in computed),
        total=len(computed),
        reasons=dict(Counter(layer.reason for layer in computed if layer.reason)),
        given=dict(Counter(layer.reason for layer in others if layer.reason)),
        inputs=given.counted(layers, "input"),
        constants=given.counted(layers, "constant"),
    )
