"""Computes the CPU references from the recording alone.

It proves with each recording that its graphs can be executed again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace as replace_fields

from qnndbg.capture.tensors import array_from_tensor, tensor_from_array
from qnndbg.execute.encoding import dequantise
from qnndbg.execute.reference import Meaning, Replace, evaluate
from qnndbg.model.graph import Graph, Node, TensorRef
from qnndbg.model.limits import FP16_MAX, FP16_OVERFLOW
from qnndbg.model.recording import QnnGraph, Run, RunnerName, Value
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer


def refer(folder: Path) -> None:
    """Run the edge graph, the reference and, if intermediates were dumped, the local reference."""
    with torch.no_grad():
        recording = open_recording(folder)
        for method, sample in recording.samples:
            _References(recording, method, sample).run()


def tensor_from(recording: Recording, ref: TensorRef) -> torch.Tensor:
    """A stored tensor as torch has it; a copy, since a recording is never written to."""
    return tensor_from_array(recording.tensor(ref), ref.dtype)


Taps = Mapping[tuple[int | None, str], torch.Tensor]
"""The HTP's values, by partition and QNN tensor name."""


class _References:
    """The references of one sample of one method."""

    def __init__(self, recording: Recording, method: str, sample: int) -> None:
        self.recording, self.writer = recording, Writer(recording.folder)
        self.method, self.sample = method, sample
        self.inputs = [self._load(item.tensor) for item in recording.inputs(method, sample)]
        self.outer = recording.last_graph("partition", method)
        graphs = [g for g in recording.qnn if g.method == method]
        self.partitions = {g.partition: (g, recording.graph(g.graph)) for g in graphs}

    def run(self) -> None:
        self._before_edge()
        self._simple("edge", self.recording.last_graph("transform", self.method))
        if self.outer is not None:
            self._whole("reference", None)
            tapped = self.recording.run("htp-tapped", self.method, self.sample)
            if tapped is not None:
                self._local({(v.partition, v.name): self._load(v.tensor) for v in tapped.values})

    def _before_edge(self) -> None:
        """The eager and the quantised model, where they were not run themselves.

        What went into the export pipeline is the model that was lowered. If that is quantised, the float
        model is what went into the annotation pipeline before.
        """
        exported = self.recording.first_graph("export", self.method)
        quantised = exported is not None and any(".quantize_" in node.target for node in exported.nodes)
        if quantised:
            self._simple("quantized", exported)
            annotated = self.recording.first_graph("annotation", self.method)
            self._simple("eager", annotated if self._takes_inputs(annotated) else exported, "float")
        else:
            self._simple("eager", exported, "float")

    def _takes_inputs(self, graph: Graph | None) -> bool:
        placeholders = [node for node in graph.nodes if node.role == "input"] if graph is not None else []
        return graph is not None and len(placeholders) == len(self.inputs)

    def _simple(self, runner: RunnerName, graph: Graph | None, meaning: Meaning = "quantised") -> None:
        """Run a graph that has no delegates, unless somebody ran it already."""
        if graph is None or self.recording.run(runner, self.method, self.sample) is not None:
            return
        walk = evaluate(graph, [i.clone() for i in self.inputs], self._load, meaning=meaning)
        self._write(runner, walk.results, [], walk.problems)

    def _load(self, ref: TensorRef) -> torch.Tensor:
        return tensor_from(self.recording, ref)

    def _local(self, taps: Taps) -> None:
        """Each op on the HTP's inputs; in fp16 the reading of overflowed inputs that fits the HTP better."""
        if not self.recording.manifest.precision.startswith("fp16"):
            self._whole("local", taps)
            return
        limits = (*FP16_OVERFLOW, math.inf)
        readings = [{key: _clamped(tap, limit) for key, tap in taps.items()} for limit in limits]
        run = self._whole("local", readings[0])
        if all(torch.equal(readings[0][key], tap) for key, tap in taps.items()):
            return
        for reading in readings[1:]:
            other = {(v.partition, v.name): v for v in self._whole("local", reading).values}
            closer = (self._closer(v, other.get((v.partition, v.name), v), taps) for v in run.values)
            run = replace_fields(run, values=tuple(closer))
        self.writer.run(run)

    def _closer(self, one: Value, other: Value, taps: Taps) -> Value:
        tap = taps.get((one.partition, one.name))
        if tap is None or one.tensor == other.tensor:
            return one
        errors = [
            (self._load(v.tensor).double().reshape(-1) - tap.double().reshape(-1)).norm()
            for v in (one, other)
        ]
        return one if errors[0] <= errors[1] else other

    def _whole(self, runner: RunnerName, taps: Taps | None) -> Run:
        """Run the whole program, every partition in its last form; with taps, each op on the HTP's inputs."""
        assert self.outer is not None
        values: list[Value] = []
        problems: dict[str, str] = {}

        def call_partition(number: int, args: Sequence[Any]) -> Sequence[Any]:
            qnn, graph = self.partitions[number]
            replace = None if taps is None else self._replacing(qnn, taps)
            walk = evaluate(graph, args, self._load, replace=replace)
            problems.update(walk.problems)
            values.extend(self._named(number, qnn, graph, walk.values))
            return walk.results

        walk = evaluate(self.outer, self.inputs, self._load, call_partition=call_partition)
        return self._write(runner, walk.results, values, problems | walk.problems)

    def _replacing(self, qnn: QnnGraph, taps: Taps) -> Replace:
        encodings = {tensor.name: tensor.encoding for tensor in qnn.tensors}

        def replace(node: Node, output: int, computed: torch.Tensor | None) -> torch.Tensor | None:
            name = node.tensors[output] if output < len(node.tensors) else ""
            value = taps.get((qnn.partition, name))
            if value is None:
                return computed
            encoding = encodings.get(name)
            if encoding is not None and not value.is_floating_point():
                value = dequantise(value, encoding)
            return value if computed is None else _like(value, computed)

        return replace

    def _named(
        self, partition: int, qnn: QnnGraph, graph: Graph, values: Mapping[tuple[str, int], torch.Tensor]
    ) -> list[Value]:
        """The values that are QNN tensors, under their names."""
        found = []
        for tensor in qnn.tensors:
            value = values.get((tensor.node, tensor.output))
            if value is not None:
                found.append(Value(name=tensor.name, partition=partition, tensor=self._store(value)))
        return found

    def _write(
        self, runner: RunnerName, results: Sequence[Any], values: Sequence[Value], problems: Mapping[str, str]
    ) -> Run:
        stored = tuple(self._store(r) if isinstance(r, torch.Tensor) else None for r in results)
        run = Run(
            runner=runner,
            method=self.method,
            sample=self.sample,
            results=stored,
            values=tuple(values),
            problems=dict(problems),
        )
        self.writer.run(run)
        return run

    def _store(self, value: torch.Tensor) -> TensorRef:
        return self.writer.tensor(*array_from_tensor(value))


def _clamped(value: torch.Tensor, limit: float) -> torch.Tensor:
    """A dumped fp16 value as an op reads it that takes everything beyond fp16's range for the limit."""
    if not value.is_floating_point():
        return value
    return torch.where(value.abs() > FP16_MAX, value.sign() * value.abs().clamp(max=limit), value)


def _like(value: torch.Tensor, computed: torch.Tensor) -> torch.Tensor:
    """The HTP's value in the dtype and rank that the next op expects; QNN has no 0-d tensor or int64."""
    if value.shape != computed.shape and value.numel() == computed.numel():
        value = value.reshape(computed.shape)
    return value.to(computed.dtype) if value.shape == computed.shape else computed
