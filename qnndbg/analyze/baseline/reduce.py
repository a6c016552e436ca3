"""From a recording to what a baseline holds of it.

Kept of each method are three kinds of graphs: as it was exported, in whose terms all later nodes have their
ancestors; as it went to the partitioner, where fallbacks are told; and each partition's last one, whose nodes
became QNN tensors. Of all other snapshots the digest tells whether two lowerings are still the same there.
"""

from __future__ import annotations

from msgspec.structs import replace

from qnndbg.analyze.baseline.digests import HEX, DigestInterner, structure
from qnndbg.analyze.baseline.trim import FLOAT32_DIGITS, METRIC_DIGITS, trimmed
from qnndbg.analyze.diff.form import QUANTISE_OPS
from qnndbg.errors import RecordingError
from qnndbg.model.baseline import BaselineData
from qnndbg.model.graph import Graph, Node, Origin
from qnndbg.model.recording import PassEvent, QnnGraph, Run
from qnndbg.model.result import Comparison
from qnndbg.recording.baseline import Baseline
from qnndbg.recording.store import Recording

SOURCES = 8
"""Places that make an error, of which a baseline keeps the worst."""
_EARLY = ("annotation", "quantized")
"""Stages before the model is exported for the backend."""


def baseline_of(recording: Recording) -> Baseline:
    """What a baseline holds of a recording; a baseline itself is returned as it is.

    Raises:
        RecordingError: it was never compared, or a part is missing.
    """
    if isinstance(recording, Baseline):
        return recording
    comparison = recording.comparison()
    if comparison is None:
        raise RecordingError(
            f"{recording.folder} holds no comparison, so it can be no side of a baseline",
            "the recording ended early; record again",
        )
    digests = _Digests(recording)
    kept = {place: f"{digests.of(digest)}/{place}" for place, digest in _kept(recording).items()}
    graphs = {kept[place]: digests.graph(digest) for place, digest in _kept(recording).items()}
    at = {index: kept[place] for index, place in _snapshots(recording).items()}
    data = BaselineData(
        manifest=recording.manifest,
        sizes=recording.sizes,
        passes=tuple(_event(event, digests, at) for event in recording.passes),
        graphs=graphs,
        qnn=tuple(_qnn(graph, kept) for graph in recording.qnn),
        runs=tuple(replace(run, values=()) for _, run in sorted(recording.runs.items()) if _final(run)),
        comparison=_comparison(comparison),
    )
    return Baseline(recording.folder, data)


class _Digests:
    """The snapshots of a recording, bare of what a baseline leaves out, each digested once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._intern = DigestInterner()
        self._known: dict[str, str] = {}

    def graph(self, digest: str) -> Graph:
        graph = self._recording.graph(digest)
        return trimmed(replace(graph, nodes=tuple(map(_bare, graph.nodes))), FLOAT32_DIGITS)

    def of(self, digest: str) -> str:
        if digest and digest not in self._known:
            self._known[digest] = structure(self.graph(digest), self._intern)
        return self._known.get(digest, "")


def _bare(node: Node) -> Node:
    """The node without what only its own recording has a use for; a quantise op is known by its target."""
    origin = node.origin
    few = Origin(
        ancestors=() if origin.ancestors == (node.name,) else origin.ancestors,
        module_path=origin.module_path,
        created_by=origin.created_by,
    )
    constant = node.constant and replace(node.constant, digest=node.constant.digest[:HEX])
    return replace(
        node,
        origin=Origin() if node.target.startswith(QUANTISE_OPS) else few,
        constant=constant,
        handle=(),
        tensors=(),
    )


def _snapshots(recording: Recording) -> dict[int, str]:
    """Index of an event to the place under which its snapshot is kept."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for event in recording.passes:
        if event.after and event.stage not in _EARLY:
            first.setdefault(event.method, event.index)
            if event.stage == "transform":
                last[event.method] = event.index
    exported = {index: f"exported.{method}" for method, index in first.items()}
    return exported | {index: f"transform.{m}" for m, index in last.items() if index not in exported}


def _kept(recording: Recording) -> dict[str, str]:
    """Place to the digest of the graph that is kept of it."""
    places = _snapshots(recording)
    found = {places[event.index]: event.after for event in recording.passes if event.index in places}
    return found | {_qnn_place(graph): graph.graph for graph in recording.qnn}


def _qnn_place(graph: QnnGraph) -> str:
    return f"qnn.{graph.method}.{graph.partition}"


def _event(event: PassEvent, digests: _Digests, kept: dict[int, str]) -> PassEvent:
    after = kept.get(event.index) or digests.of(event.after)
    return replace(event, before=digests.of(event.before), after=after, seconds=0.0)


def _qnn(graph: QnnGraph, kept: dict[str, str]) -> QnnGraph:
    tensors = tuple(replace(tensor, held=None) for tensor in graph.tensors)
    return trimmed(replace(graph, graph=kept[_qnn_place(graph)], tensors=tensors), FLOAT32_DIGITS)


def _final(run: Run) -> bool:
    """Runs of which only intermediate values are of interest are left out."""
    return any(run.results)


def _comparison(comparison: Comparison) -> Comparison:
    """The answer without the tensors that no op computes; how many these are the coverage tells."""
    layers = tuple(x for x in comparison.layers if x.qnn_op or x.op)
    short = replace(comparison, layers=layers, sources=comparison.sources[:SOURCES])
    return trimmed(short, METRIC_DIGITS)
