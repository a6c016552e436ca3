"""What the screens look up in a recording: loaded when first asked for, and kept while it may be needed.

Owns every cache of the terminal UI. Tensors are never kept: each look at one maps its file anew.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from qnndbg.analyze.descent import Staged
from qnndbg.analyze.side_by_side import Row, side_by_side
from qnndbg.analyze.verdict import empty_comparison, sources, victims
from qnndbg.errors import QnndbgError
from qnndbg.model.graph import Graph, TensorRef
from qnndbg.model.recording import Manifest, PassEvent, QnnGraph, RunnerName
from qnndbg.model.result import Comparison, LayerResult
from qnndbg.recording.store import Recording
from qnndbg.report.layers import lsb_or_ulp
from qnndbg.tui.places import GraphAt, LayerAt
from qnndbg.tui.walk import Walk, walk_of_graph, walk_of_qnn

KEPT_GRAPHS = 10
"""Snapshots in memory at a time: the last one of each stage, and the two of a pass."""
READY_GRAPHS = 6
"""Of them, how many are loaded before anybody asks."""
KEPT_DIFFS = 4
"""Passes in memory at a time, with their graphs side by side."""
REST = 0.2
"""Seconds without a key after which there is time for work behind the screen."""
SHORT_REST = 0.1
"""Seconds without a key after which there is time for what the next page will need."""
Sides = dict[RunnerName, TensorRef]


@contextmanager
def unscanned() -> Iterator[None]:
    """Keep the garbage collector off what is loaded within: it has no cycles, and a scan stalls the keys.

    Half a million objects of a recording take a collection of all generations half a second.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


class Keeping(Recording):
    """A recording that keeps the graphs that were looked at last."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        super().__init__(folder, manifest)
        self._kept = functools.lru_cache(maxsize=KEPT_GRAPHS)(self._load)

    def graph(self, digest: str) -> Graph:
        """A stored graph."""
        return self._kept(digest)

    def _load(self, digest: str) -> Graph:
        with unscanned():
            return super().graph(digest)


class Session:
    """One recording that is being looked at.

    Args:
        recording: complete or not.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = Keeping(recording.folder, recording.manifest)
        self.name = recording.folder.name
        self.graph = self.recording.graph
        self.walk = functools.lru_cache(maxsize=KEPT_GRAPHS)(self._walk)
        self.staged = functools.lru_cache(maxsize=KEPT_GRAPHS)(self._staged)
        self.rows_of = functools.lru_cache(maxsize=KEPT_DIFFS)(self._rows_of)
        self.saturation: dict[LayerAt, float | None] = {}
        """Share of the HTP's values at an end of their range; filled in behind the table's back."""

        self.report: Path | None = None
        """The HTML report, once it was written."""
        self.touched = 0.0
        """When a key was pressed last."""
        self.widths: dict[str, int] = {}
        """Cells of the longest text of each column of the table of layers; filled in by it."""
        self.node_counts: dict[str, int] = {}
        """Nodes of a graph by its digest; filled in likewise."""

    def wait_for_rest(self, *, short: bool = False) -> None:
        """Let keys go first: for threads, which call it before each small piece of work."""
        rest = SHORT_REST if short else REST
        while time.monotonic() - self.touched < rest:
            time.sleep(rest / 4)
        time.sleep(0.0005)

    def prepare(self) -> Iterator[None]:
        """Find out what most pages ask; yields before each piece, as the user may be at work."""
        for name in ("numbers", "made", "inherited", "named", "partitions"):
            yield
            getattr(self, name)
        with suppress(QnndbgError):  # said when it is looked at
            for digest in [at.digest for at in self.graphs if at.digest][:READY_GRAPHS]:
                yield
                self.graph(digest)
            changed = (event for event in self.passes if event.changed and event.name)
            if first := next(changed, None):
                yield
                self.rows_of(first.before, first.after)

    @cached_property
    def answer(self) -> Comparison:
        """The comparison, or an empty one if the recording did not get that far."""
        with unscanned():
            return self.recording.comparison() or empty_comparison()

    @cached_property
    def passes(self) -> tuple[PassEvent, ...]:
        """All pass events; quantising, which no hook sees from within, begins with the annotated graph."""
        annotated: dict[str, str] = {}
        found: list[PassEvent] = []
        for event in self.recording.passes:
            before = annotated.get(event.method, "")
            if event.stage == "annotation" and event.after:
                annotated[event.method] = event.after
            elif event.stage == "quantized" and before and event.before in {"", event.after} and event.after:
                event = replace(event, before=before, changed=before != event.after)
            found.append(event)
        return tuple(found)

    @cached_property
    def layers(self) -> dict[LayerAt, LayerResult]:
        """Every QNN tensor, in the order of execution."""
        return {key_of(layer): layer for layer in self.answer.layers}

    @cached_property
    def numbers(self) -> dict[LayerAt, int]:
        """Where a layer stands in that order, from 1."""
        return {key: i for i, key in enumerate(self.layers, 1)}

    @cached_property
    def made(self) -> frozenset[LayerAt]:
        """Layers that make an error."""
        return frozenset(key_of(layer) for layer in sources(self.answer.layers))

    @cached_property
    def inherited(self) -> frozenset[LayerAt]:
        """Layers that only pass one on."""
        return frozenset(key_of(layer) for layer in victims(self.answer.layers))

    @cached_property
    def unit(self) -> Literal["LSB", "ULP"]:
        """What the largest error is counted in."""
        return lsb_or_ulp(self.answer.layers)

    @cached_property
    def named(self) -> dict[str, LayerAt]:
        """A layer by the name of its tensor, or of what it is without its output's number."""
        names: dict[str, LayerAt] = {}
        for key in self.layers:
            names.setdefault(key.tensor, key)
            names.setdefault(key.tensor.rpartition("@")[0], key)
        return names

    @cached_property
    def partitions(self) -> dict[str, tuple[int, ...]]:
        """The partitions of each method that have layers."""
        found = sorted({(key.method, key.partition) for key in self.layers})
        return {method: tuple(p for m, p in found if m == method) for method, _ in found}

    def sides(self, key: LayerAt) -> Sides:
        """What each runner has of a QNN tensor."""
        return self._values.get(key, {})

    @cached_property
    def _values(self) -> dict[LayerAt, Sides]:
        found: dict[LayerAt, Sides] = {}
        for run in self.recording.runs.values():
            if run.sample:
                continue
            for value in run.values:
                if value.partition is not None:
                    key = LayerAt(run.method, value.partition, value.name)
                    # Of inputs and constants there is no dump, but what the HTP holds.
                    runner = "htp-tapped" if run.runner == "held" else run.runner
                    found.setdefault(key, {})[runner] = value.tensor
        return found

    def qnn(self, method: str, partition: int | None) -> QnnGraph | None:
        """The QNN graph of a partition, if it became one."""
        return next((g for g in self.recording.qnn if (g.method, g.partition) == (method, partition)), None)

    @cached_property
    def graphs(self) -> tuple[GraphAt, ...]:
        """The last graph of each stage, and behind that of each partition what it became in QNN."""
        found: dict[tuple[str, str, int | None], str] = {
            (event.stage, event.method, event.partition): event.after
            for event in self.recording.passes
            if event.after
        }
        # The graph that QNN tensors point to is the same snapshot with their names on its nodes.
        found |= {("preprocess", g.method, g.partition): g.graph for g in self.recording.qnn}
        places: list[GraphAt] = []
        for (stage, method, partition), digest in found.items():
            places.append(GraphAt(stage, method, partition, digest))
            if stage == "preprocess" and self.qnn(method, partition) is not None:
                places.append(GraphAt("qnn", method, partition))
        return tuple(places)

    def located(self, at: GraphAt) -> GraphAt:
        """The place with the digest of its graph filled in."""
        if at.digest or at.stage == "qnn":
            return at
        same = (
            g for g in self.graphs if (g.stage, g.method, g.partition) == (at.stage, at.method, at.partition)
        )
        return next(same, at)

    def _walk(self, at: GraphAt) -> Walk:
        """A graph to walk in."""
        if at.stage == "qnn":
            graph = self.qnn(at.method, at.partition)
            return walk_of_qnn(graph) if graph is not None else Walk()
        at = self.located(at)
        return walk_of_graph(self.graph(at.digest)) if at.digest else Walk()

    def _staged(self, at: GraphAt) -> Staged | None:
        """A graph with what its nodes descend from; that of QNN is its partition's last."""
        if at.stage == "qnn":
            qnn = self.qnn(at.method, at.partition)
            at = GraphAt("preprocess", at.method, at.partition, qnn.graph if qnn is not None else "")
        at = self.located(at)
        exported = self.recording.first_graph("export", at.method)
        return Staged(at.stage, self.graph(at.digest), exported) if at.digest else None

    def _rows_of(self, before: str, after: str) -> tuple[Row, ...]:
        """Two snapshots side by side."""
        return side_by_side(self.graph(before), self.graph(after))

    @property
    def main_method(self) -> str:
        """The method to begin with."""
        methods = self.recording.methods
        return "forward" if "forward" in methods or not methods else methods[0]

    def edge_graph(self, method: str = "forward") -> GraphAt | None:
        """The graph that to_backend gets."""
        wanted = ("transform", method, None)
        return next((g for g in self.graphs if (g.stage, g.method, g.partition) == wanted), None)


def key_of(layer: LayerResult) -> LayerAt:
    """What a layer is found by."""
    return LayerAt(layer.method, layer.partition, layer.tensor)
