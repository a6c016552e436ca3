"""Follows the value behind each QNN tensor through all rungs, and measures what each rung adds to it.

Values are paired by provenance: a node of a partition descends from nodes of the exported graph; the graphs
before that one are paired with it op by op, and those behind it by the names that nodes keep. Of the nodes
that one op was decomposed into, only the last computes what that op did.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import torch

from qnndbg.analyze.descent import GETITEM
from qnndbg.analyze.metrics import measure
from qnndbg.analyze.normalize import saturate, saturate_infinite
from qnndbg.analyze.twins import twins
from qnndbg.execute.difference import logical
from qnndbg.execute.program import Place, Substitute
from qnndbg.execute.reference import Computed
from qnndbg.model.graph import Graph, Node, Ref
from qnndbg.model.layer_ladder import LayerLadder, LayerRungs
from qnndbg.model.recording import QnnGraph, RunnerName, is_half
from qnndbg.model.result import MAX_SQNR_DB
from qnndbg.recording.store import Recording

BEFORE_EXPORT = frozenset({"eager", "annotation", "quantized"})
"""Rungs whose graphs are paired with the exported one op by op."""
NAMED_AS_LAST = frozenset({"edge", "transform"})
"""Rungs whose nodes have the names of those in the partitions."""
KEEPING = frozenset({"view_copy", "squeeze_copy", "unsqueeze_copy", "permute_copy"})
"""Ops that decompositions and layouts put behind an op, and that leave its numbers alone."""


class LayerClimb:
    """The layers of one sample, as the rungs come by in their order."""

    def __init__(self, recording: Recording, method: str, sample: int, qnn: Mapping[int, QnnGraph]) -> None:
        self.method, self.sample = method, sample
        self.half = is_half(recording.manifest.precision)
        self.exported = recording.first_graph("export", method)
        nodes = self.exported.nodes if self.exported is not None else ()
        self.picks = {node.name for node in nodes if node.target == GETITEM}
        self.graphs = {n: recording.graph(graph.graph) for n, graph in qnn.items()}
        graphs = self.graphs.items()
        self.nodes: dict[tuple[int | None, str], Node] = {
            (number, node.name): node for number, graph in graphs for node in graph.nodes
        }
        self.tensors = dict(_computed(qnn, self.nodes))
        self.ancestors = _ancestors(self.graphs, self.picks)
        self.rungs: list[RunnerName] = []
        self.eager: dict[Place, np.ndarray] = {}
        self.last: dict[Place, np.ndarray] = {}
        self.found: dict[Place, list[tuple[float | None, float | None]]] = {p: [] for p in self.tensors}
        """Against eager and against the rung before, for each rung so far."""

    def watch(self, rung: RunnerName, graph: Graph) -> Substitute:
        """Begin a rung whose graph has no delegates; gives what its program is to be run with."""
        self._begin(rung)
        stands = _standing(graph)
        wanted: dict[tuple[str, int], list[Place]] = {}
        for place, node in self._twins(rung, graph):
            at = (node.name, place.output)
            wanted.setdefault(stands.get(at, at), []).append(place)

        def note(at: Place, computed: Computed) -> torch.Tensor | None:
            if computed.value is not None:
                for place in wanted.get((at.node, at.output), ()):
                    self._note(place, logical(computed.node, computed.value, graph))
            return computed.value

        return note

    def rung(self, rung: RunnerName, values: Mapping[Place, torch.Tensor]) -> None:
        """A rung that has the QNN tensors themselves, in stored layout."""
        self._begin(rung)
        for place in self.tensors:
            value = values.get(place)
            if value is not None and place.partition is not None:
                node, graph = self.nodes[place.partition, place.node], self.graphs[place.partition]
                self._note(place, logical(node, value, graph))

    def result(self) -> LayerLadder:
        """What was found of all rungs."""
        self._fill()
        layers = tuple(
            LayerRungs(
                tensor=self.tensors[place],
                partition=place.partition or 0,
                against_eager=tuple(pair[0] for pair in pairs),
                against_previous=tuple(pair[1] for pair in pairs),
            )
            for place, pairs in self.found.items()
        )
        return LayerLadder(method=self.method, sample=self.sample, rungs=tuple(self.rungs), layers=layers)

    def _begin(self, rung: RunnerName) -> None:
        self._fill()
        self.rungs.append(rung)

    def _fill(self) -> None:
        """Layers that the rung behind us does not have get an empty entry."""
        for pairs in self.found.values():
            pairs += [(None, None)] * (len(self.rungs) - len(pairs))

    def _twins(self, rung: RunnerName, graph: Graph) -> Iterator[tuple[Place, Node]]:
        """The node of a rung's graph that computes what each QNN tensor holds."""
        nodes = {node.name: node for node in graph.nodes}
        if rung in NAMED_AS_LAST:
            # The last one first, so that of those with one value it is the one that counts.
            of_ancestor = {
                ancestor: name for (_, name), ancestor in reversed(_ancestors({0: graph}, self.picks).items())
            }
        else:
            of_ancestor = {name: name for name in nodes}
            if rung in BEFORE_EXPORT and self.exported is not None and graph != self.exported:
                of_ancestor = {twin.name: name for name, twin in twins(graph, self.exported).items()}
        for place in self.tensors:
            key = (place.partition, place.node)
            node = self.nodes[key]
            twin = nodes.get(place.node) if rung in NAMED_AS_LAST else None
            if twin is None or twin.origin != node.origin:
                twin = nodes.get(of_ancestor.get(self.ancestors.get(key, ""), ""))
            # An op of one output may become the first of several, as layer_norm does in native_layer_norm.
            if twin is not None and (twin.multiple == node.multiple or _kind(twin) in _kind(node)):
                yield place, twin

    def _note(self, place: Place, value: torch.Tensor) -> None:
        """One value of the current rung, if it is of the shape that the tensor has."""
        pairs, node = self.found[place], self.nodes[place.partition or 0, place.node]
        spec = node.outputs[place.output] if place.output < len(node.outputs) else None
        if len(pairs) == len(self.rungs) or value.is_complex() or spec is None:
            return
        if _sizes(value.shape) != _sizes(spec.shape):
            return
        array, before = self._held(value), self.last.get(place)
        if self.rungs[-1] == "eager":
            self.eager[place] = array
        pairs.append((_sqnr(self.eager.get(place), array), _sqnr(before, array)))
        self.last[place] = array

    def _held(self, value: torch.Tensor) -> np.ndarray:
        """A copy as numbers, and as half floats hold them at best."""
        array = value.detach().to(torch.float32 if value.is_floating_point() else value.dtype)
        numbers = array.flatten().numpy().copy()
        if not self.half:
            return numbers
        return saturate(numbers) if self.rungs[-1] == "htp-tapped" else saturate_infinite(numbers)


def _sqnr(reference: np.ndarray | None, target: np.ndarray) -> float | None:
    if reference is None:
        return None
    if np.array_equal(reference, target):
        return MAX_SQNR_DB
    found = measure(reference, target).sqnr_db
    return None if found is None else round(found, 2)


def _sizes(shape: Sequence[object]) -> list[object]:
    """A shape without its axes of length 1, which QNN needs more of, and fewer, than torch."""
    return [size for size in shape if size != 1]


def _computed(
    qnn: Mapping[int, QnnGraph], nodes: Container[tuple[int | None, str]]
) -> Iterator[tuple[Place, str]]:
    """The tensors that an op computes and a node stands for."""
    for number, graph in qnn.items():
        made = {name for op in graph.ops for name in op.outputs}
        for tensor in graph.tensors:
            if tensor.name in made and (number, tensor.node) in nodes:
                yield Place(number, tensor.node, tensor.output), tensor.name


def _ancestors(graphs: Mapping[int, Graph], picks: Container[str]) -> dict[tuple[int | None, str], str]:
    """Each node whose value is that of an op of the exported graph, to that op.

    It is the last node that descends from the op, and those in front of it that it only reshapes. What picks
    one of several outputs is no op.
    """
    last: dict[str, tuple[int, Node]] = {}
    for number, graph in graphs.items():
        for node in graph.nodes:
            if node.op == "call_function" and node.target != GETITEM and not node.origin.created_by:
                last.update((ancestor, (number, node)) for ancestor in _ops(node, picks)[-1:])
    found: dict[tuple[int | None, str], str] = {}
    for ancestor, (number, node) in last.items():
        nodes = {n.name: n for n in graphs[number].nodes}
        found[number, node.name] = ancestor
        while _kind(node) in KEEPING and isinstance(node.args[0], Ref):
            node = nodes[node.args[0].node]
            if not node.origin.created_by and _ops(node, picks)[-1:] != [ancestor]:
                break
            if not node.origin.created_by:
                found[number, node.name] = ancestor
    return found


def _ops(node: Node, picks: Container[str]) -> list[str]:
    return [ancestor for ancestor in node.origin.ancestors if ancestor not in picks]


def _kind(node: Node) -> str:
    return node.target.split(".")[1] if node.target.count(".") > 1 else ""


def _standing(graph: Graph) -> dict[tuple[str, int], tuple[str, int]]:
    """Where the value of a node stands once it is picked from a tuple and rounded, if nodes do that."""
    picks: dict[tuple[str, int], tuple[str, int]] = {}
    rounds: dict[tuple[str, int], tuple[str, int]] = {}
    for node in graph.nodes:
        source = node.args[0] if node.args else None
        if not isinstance(source, Ref):
            continue
        if node.target == GETITEM and isinstance(node.args[1], int):
            picks[source.node, node.args[1]] = (node.name, 0)
        elif ".quantize_" in node.target:
            rounds.setdefault((source.node, 0), (node.name, 0))
    return rounds | {at: rounds.get(pick, pick) for at, pick in picks.items()}
