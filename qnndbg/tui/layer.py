"""The page of one layer: what stands for it at each stage, its values on both sides, and its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from qnndbg.analyze.elements import Elements, Pair, look
from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.timeline import Step, timeline
from qnndbg.errors import QnndbgError
from qnndbg.model.graph import Node, QuantParams
from qnndbg.model.recording import RunnerName
from qnndbg.report import units
from qnndbg.tui import layer_parts
from qnndbg.tui.page import Page, blank
from qnndbg.tui.places import GraphAt, LayerAt, NodeAt, Place, TensorAt
from qnndbg.tui.sheet import Content, Line, Lines, Sheet
from qnndbg.tui.state import Session
from qnndbg.tui.words import wrapped

SIDES: tuple[tuple[str, RunnerName], ...] = (("cpu", "reference"), ("htp", "htp-tapped"), ("local", "local"))
"""What a side is called, and who computed it; all are held against the first."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is slow to find out."""

    steps: tuple[Step, ...] = ()
    elements: Elements | None = None
    """HTP against the CPU, each on its own inputs."""
    local: Elements | None = None
    """HTP against the CPU on the HTP's inputs."""
    problem: str = ""


class Layer(Page):
    """One value of the HTP: its errors, its stages, its elements and its neighbours.

    The error made here is that of this one op, evaluated on the CPU from the HTP's own inputs; the other
    error is accumulated along the graph.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "tensor", "Tensor"),
        Binding("w", "walk", "Graph"),
        Binding("right_square_bracket", "beside(1)", "Next layer"),
        Binding("left_square_bracket", "beside(-1)", "Previous layer", show=False),
    ]

    def __init__(self, session: Session, key: LayerAt, folder: Path) -> None:
        super().__init__(session)
        self.key, self.folder = key, folder
        self.result = session.layers[key]
        self.known: _Known | None = None

    @property
    def label(self) -> str:  # type: ignore[override]
        """The op, and where it is."""
        layer = self.result
        return f"{short_op(layer.op) or layer.given} {layer.module}".strip()

    def body(self) -> Sequence[Widget]:
        """One sheet."""
        return (Sheet(self._lines, id="layer"),)

    def on_mount(self) -> None:
        """Look for the rest."""
        self._look()

    def _look(self) -> None:
        self.run_worker(self._find, thread=True, exclusive=True, name="layer")

    def _find(self) -> None:
        key = self.key
        steps: tuple[Step, ...] = ()
        try:
            qnn = self.session.qnn(key.method, key.partition)
            known_to_qnn = qnn is not None and any(t.name == key.tensor for t in qnn.tensors)
            recording = self.session.recording
            if known_to_qnn:
                steps = timeline(recording, key.method, key.partition, key.tensor)
            known = _Known(steps, self._elements("reference"), self._elements("local"))
        except QnndbgError as error:
            known = _Known(steps, problem="; ".join(filter(None, (error.fact, error.hint))))
        self.app.call_from_thread(self._found, key, known)

    def _found(self, key: LayerAt, known: _Known) -> None:
        if key == self.key and self.is_attached:
            self.known = known
            self.query_one("#layer", Sheet).rebuild()

    def _elements(self, runner: RunnerName) -> Elements | None:
        sides = self.session.sides(self.key)
        if runner not in sides or "htp-tapped" not in sides or self.result.reason:
            return None
        tensor = self.session.recording.tensor
        half = self.session.recording.manifest.precision.startswith("fp16")
        pair = Pair(tensor(sides[runner]), tensor(sides["htp-tapped"]), self.result.encoding, half=half)
        return look(pair, axis=self._channels(pair.reference.ndim))

    def _channels(self, rank: int) -> int | None:
        """The last axis where the HTP stores channels last, else the second."""
        node = next((n for n in self._graph_nodes() if self.key.tensor in n.tensors), None)
        if node is None or node.axis_order is None or len(node.axis_order) != rank:
            return None
        sides = self.session.sides(self.key)
        stored = sides["reference"].shape if "reference" in sides else ()
        logical = node.outputs[0].shape if node.outputs and node.outputs[0] is not None else ()
        return 1 if stored == logical else node.axis_order.index(1) if 1 in node.axis_order else None

    def _graph_nodes(self) -> Sequence[Node]:
        qnn = self.session.qnn(self.key.method, self.key.partition)
        return self.session.graph(qnn.graph).nodes if qnn is not None else ()

    def _lines(self, width: int) -> Content:
        return Lines([*self._sections(width)])

    def _sections(self, width: int) -> Iterator[Line]:
        known, layer = self.known or _Known(), self.result
        yield from layer_parts.facts(layer, self.folder, width)
        if not layer.reason:
            yield blank()
            yield from layer_parts.errors(self.session, layer, width)
        if self.known is None:
            yield Line(Text("  reading graphs and tensors …", "faint"), stop=False)
        if known.problem:
            parts = wrapped(known.problem, width - 2)
            yield from (Line(Text(f"{' ' if n else units.BROKEN} {p}", "bad")) for n, p in enumerate(parts))
        step = _step(layer.encoding)
        if known.elements is not None:
            yield blank()
            yield from layer_parts.values(known.elements, known.local, step, width)
        if known.steps:
            yield blank()
            yield from layer_parts.stages(known.steps, self.key, width)
        found, side = (known.local, "cpu on its inputs") if known.local else (known.elements, "cpu")
        if found is not None and found.worst:
            yield blank()
            yield from layer_parts.worst(found, side, step, self._tensor(), width)
        qnn = self.session.qnn(self.key.method, self.key.partition)
        if qnn is not None:
            yield blank()
            yield from layer_parts.neighbours(self.session, self.key, qnn, width)

    def _tensor(self) -> TensorAt:
        sides = self.session.sides(self.key)
        found = tuple((name, sides[runner]) for name, runner in SIDES if runner in sides)
        return TensorAt(self.key.tensor, found, self.key)

    def here(self) -> Place:
        """The layer."""
        return self.key

    def status(self) -> Text:
        """Its name, and its place in the order."""
        number = self.session.numbers[self.key]
        return Text(f" {self.key.tensor} · {number} of {len(self.session.layers)}")

    def action_tensor(self) -> None:
        """Look at its elements."""
        place = self._tensor()
        if place.sides:
            self.shell.go(place)
        else:
            self.shell.say("no values of it were recorded", bad=True)

    def action_walk(self) -> None:
        """Open it in the QNN graph."""
        self.shell.go(NodeAt(self.key.tensor, GraphAt("qnn", self.key.method, self.key.partition)))

    def action_beside(self, by: int) -> None:
        """Go to the next value that the HTP computes."""
        keys = [key for key, layer in self.session.layers.items() if not layer.reason or key == self.key]
        self.key = keys[(keys.index(self.key) + by) % len(keys)]
        self.result, self.known = self.session.layers[self.key], None
        self.query_one("#layer", Sheet).rebuild(0)
        self.show_where()
        self._look()


def _step(encoding: QuantParams | None) -> float | None:
    """The size of a step, where there is one."""
    scales = () if encoding is None else encoding.scales
    return scales[0] if len(scales) == 1 and np.isfinite(scales[0]) and scales[0] > 0 else None
