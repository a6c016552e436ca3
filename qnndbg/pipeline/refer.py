"""Computes the CPU references from the recording alone, and what they say of the HTP's errors.

It proves with each recording that its graphs can be executed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_field
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from qnndbg.analyze.delegates import delegate_outputs
from qnndbg.capture.tensors import array_from_tensor
from qnndbg.execute.effect import like
from qnndbg.execute.encoding import dequantise
from qnndbg.execute.local import Local, Taps, distance, evaluate_locally
from qnndbg.execute.program import Place, Program, Trace
from qnndbg.execute.reference import Meaning, taken
from qnndbg.model.graph import Graph, QuantParams, Ref, TensorRef
from qnndbg.model.recording import FOLDED, QnnTensor, Run, RunnerName, Value, is_half
from qnndbg.pipeline.attribute import attribute_backend, attribute_quantisation
from qnndbg.pipeline.held import Constants, held_otherwise
from qnndbg.pipeline.layer_ladder import LayerClimb
from qnndbg.pipeline.pass_search import search_passes
from qnndbg.pipeline.stored import tensor_from
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer


def refer(folder: Path) -> None:
    """Run the references of every sample, and attribute the errors of its outputs."""
    with torch.no_grad():
        recording = open_recording(folder)
        for method, sample in recording.samples:
            _References(recording, method, sample).run()
        recording, writer = open_recording(folder), Writer(folder)
        for method, sample in recording.samples:
            for change in search_passes(recording, method, sample):
                writer.pass_change(change)


class _References:
    """The references of one sample of one method."""

    def __init__(self, recording: Recording, method: str, sample: int) -> None:
        self.recording, self.writer = recording, Writer(recording.folder)
        self.method, self.sample = method, sample
        self.inputs = [self._load(item.tensor) for item in recording.inputs(method, sample)]
        self.qnn = {g.partition: g for g in recording.qnn if g.method == method}
        self.partitions = {number: recording.graph(g.graph) for number, g in self.qnn.items()}
        self.climb = LayerClimb(recording, method, sample, self.qnn)

    def run(self) -> None:
        self._before_edge()
        self._simple("export", self.recording.last_graph("export", self.method))
        self._simple("edge", self.recording.first_graph("transform", self.method))
        self._simple("transform", self.recording.last_graph("transform", self.method))
        outer = self.recording.last_graph("partition", self.method)
        if outer is not None:
            self._delegated(outer)
        self.writer.layer_ladder(self.climb.result())

    def _before_edge(self) -> None:
        """The eager and the quantised model, where they were not run themselves.

        What went into the export pipeline is the model that was lowered. If that is quantised, the float
        model is what went into the annotation pipeline before.
        """
        exported = self.recording.first_graph("export", self.method)
        quantised = exported is not None and any(".quantize_" in node.target for node in exported.nodes)
        if not quantised:
            self._simple("eager", exported, "float")
            return
        annotated = self.recording.first_graph("annotation", self.method)
        fits = self._takes_inputs(annotated)
        prepared = self.recording.last_graph("annotation", self.method) if fits else None
        self._simple("eager", annotated if fits else exported, "float")
        self._simple("annotation", prepared, "float")
        self._simple("quantized", exported)
        if prepared is not None and exported is not None:
            float_model = Program(prepared, self.inputs, self._load, meaning="float")
            # By the names that the float model has too; torch.export numbers them anew.
            converted = self.recording.last_graph("quantized", self.method)
            quantised_model = Program(converted or exported, self.inputs, self._load)
            for found in attribute_quantisation(float_model, quantised_model, self.method, self.sample):
                self.writer.attribution(found)

    def _takes_inputs(self, graph: Graph | None) -> bool:
        return graph is not None and len(taken(graph, len(self.inputs))) == len(self.inputs)

    def _simple(self, runner: RunnerName, graph: Graph | None, meaning: Meaning = "quantised") -> None:
        """Run a graph that has no delegates; the outputs are kept unless somebody has them already."""
        if graph is None:
            return
        program = Program(graph, self.inputs, self._load, meaning=meaning)
        trace = program.run(self.climb.watch(runner, graph))
        if self.recording.run(runner, self.method, self.sample) is None:
            self._write(runner, trace.results, (), trace.problems)

    def _delegated(self, outer: Graph) -> None:
        program = Program(outer, self.inputs, self._load, self.partitions)
        trace = program.run()
        self._write("reference", trace.results, self._named(trace), trace.problems)
        computed = {Place(n, *at): v for n, values in trace.values.items() for at, v in values.items()}
        self.climb.rung("reference", computed)
        tapped = self.recording.run("htp-tapped", self.method, self.sample)
        if tapped is None:
            return
        constants = Constants(self._load)
        partitions = {n: constants.in_place(self.qnn[n], graph) for n, graph in self.partitions.items()}
        program = Program(outer, self.inputs, constants.load, partitions)
        executed = replace_field(program, outside="executed")
        taps = self._taps(tapped, constants)
        local = evaluate_locally(executed, taps)
        if mended := self._misdumped(program, tapped, taps, local):
            self.writer.run(mended)
            taps = self._taps(mended, constants)
            local = evaluate_locally(executed, taps)
        self.climb.rung("htp-tapped", taps.values)
        self._held(local, constants)
        self._write("local", local.results, self._named_local(local), local.problems)
        names = {place: tensor.name for place, tensor in self._tensors().items()}
        for found in attribute_backend(
            program, taps, local, names, constants.changes, self.method, self.sample
        ):
            self.writer.attribution(found)

    def _held(self, local: Local, constants: Constants) -> None:
        """Write what the HTP holds of inputs and constants, where it is not what the graph has, rounded."""
        found, problems = held_otherwise(self.qnn, self.partitions, local, constants)
        values = [
            Value(name=name, partition=partition, tensor=self._store(value))
            for (partition, name), value in found.items()
        ]
        self._write("held", (), values, problems)

    def _tensors(self) -> dict[Place, QnnTensor]:
        """The QNN tensor that stands for each place."""
        found: dict[Place, QnnTensor] = {}
        for number, graph in self.qnn.items():
            for tensor in graph.tensors:
                found.setdefault(Place(number, tensor.node, tensor.output), tensor)
        return found

    def _taps(self, tapped: Run, constants: Constants) -> Taps:
        dumped = {(value.partition, value.name): value.tensor for value in tapped.values}
        values: dict[Place, torch.Tensor] = {}
        encodings: dict[Place, QuantParams] = {}
        for number, graph in self.qnn.items():
            for tensor in graph.tensors:
                place, ref = Place(number, tensor.node, tensor.output), dumped.get((number, tensor.name))
                if ref is None or place in values:
                    continue
                value = self._load(ref)
                if tensor.encoding is not None:
                    encodings[place] = tensor.encoding
                    value = value if value.is_floating_point() else dequantise(value, tensor.encoding)
                values[place] = value
        half = is_half(self.recording.manifest.precision)
        return Taps(values, encodings, half, constants.held, self._folded())

    def _folded(self) -> frozenset[Place]:
        """The constants that QNN has no tensor of its own for."""
        tensors = [(n, t) for n, graph in self.qnn.items() for t in graph.tensors]
        held = {Place(n, t.node, 0) for n, t in tensors if t.held is None or t.held.problem != FOLDED}
        return frozenset(
            place
            for number, graph in self.partitions.items()
            for node in graph.nodes
            if node.constant is not None and (place := Place(number, node.name, 0)) not in held
        )

    def _misdumped(self, program: Program, tapped: Run, taps: Taps, local: Local) -> Run | None:
        """The run with what the program hands out in place of dumps that are wrong though it is right."""
        names = {place: tensor.name for place, tensor in self._tensors().items()}
        stored = {(value.partition, value.name): value for value in tapped.values}
        problems = {}
        for ref, origin in zip(tapped.results, delegate_outputs(program.graph), strict=False):
            if ref is None or origin is None:
                continue
            value = self.partitions[origin[0]].outputs[origin[1]].value
            place = Place(origin[0], value.node, 0) if isinstance(value, Ref) else None
            if place not in taps.values or place not in local.values:
                continue
            computed, output = local.values[place], self._load(ref)
            if output.dtype != torch.int64 or output.numel() != computed.numel():
                continue  # only casts to int64 were seen to be dumped wrongly
            if distance(computed, output) < distance(computed, taps.values[place]):
                key = (place.partition, names[place])
                stored[key] = replace(stored[key], tensor=self._store(like(output, computed)))
                problems[names[place]] = "its dump is wrong; the program's output stands in"
        if not problems:
            return None
        return replace(tapped, values=tuple(stored.values()), problems=tapped.problems | problems)

    def _named(self, trace: Trace) -> list[Value]:
        """The values that are QNN tensors, under their names."""
        found = []
        for number, graph in self.qnn.items():
            for tensor in graph.tensors:
                value = trace.values.get(number, {}).get((tensor.node, tensor.output))
                if value is not None:
                    found.append(Value(name=tensor.name, partition=number, tensor=self._store(value)))
        return found

    def _named_local(self, local: Local) -> list[Value]:
        found = []
        for number, graph in self.qnn.items():
            for tensor in graph.tensors:
                place = Place(number, tensor.node, tensor.output)
                if place in local.values:
                    stored, floor = self._store(local.values[place]), local.floors.get(place)
                    found.append(
                        Value(
                            name=tensor.name,
                            partition=number,
                            tensor=stored,
                            floor=floor.rms if floor is not None else None,
                            peak_floor=floor.peak if floor is not None else None,
                        )
                    )
        return found

    def _write(
        self, runner: RunnerName, results: Sequence[Any], values: Sequence[Value], problems: Mapping[str, str]
    ) -> None:
        stored = tuple(self._store(r) if isinstance(r, torch.Tensor) else None for r in results)
        self.writer.run(
            Run(
                runner=runner,
                method=self.method,
                sample=self.sample,
                results=stored,
                values=tuple(values),
                problems=dict(problems),
            )
        )

    def _store(self, value: torch.Tensor) -> TensorRef:
        return self.writer.tensor(*array_from_tensor(value))

    def _load(self, ref: TensorRef) -> torch.Tensor:
        return tensor_from(self.recording, ref)
