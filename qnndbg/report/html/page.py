"""What the HTML report is made of, read from a recording: its answer, close-ups of layers, and drawings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from qnndbg.analyze.histogram import Histogram, error_histogram, value_histogram
from qnndbg.analyze.program_view import program_view
from qnndbg.analyze.timeline import Step, timeline
from qnndbg.analyze.values import absence, values_of
from qnndbg.analyze.verdict import empty_comparison
from qnndbg.analyze.view import View, views
from qnndbg.errors import RecordingError
from qnndbg.model.recording import Manifest, PassEvent
from qnndbg.model.result import Comparison, LayerResult
from qnndbg.recording.store import Recording
from qnndbg.report.drawing import DrawingError, svg_of
from qnndbg.report.layers import ordered

CLOSEUPS = 6
DRAWINGS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeup:
    """A layer that is worth a closer look."""

    layer: LayerResult
    position: int
    """Among the layers of the comparison."""
    errors: Histogram | None = None
    values: Histogram | None = None
    steps: tuple[Step, ...] = ()
    problem: str = ""
    """Why something of it is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawn graph."""

    view: View
    svg: str
    problem: str = ""
    """Why it could not be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that the report shows."""

    manifest: Manifest
    comparison: Comparison
    has_comparison: bool
    passes: tuple[PassEvent, ...] = ()
    closeups: tuple[Closeup, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be read of the recording."""


def page_from_recording(recording: Recording) -> Page:
    """Read a recording, complete or not; what is missing of it is said, not raised."""
    comparison = recording.comparison()
    answer = comparison or empty_comparison()
    problems: list[str] = []
    return Page(
        manifest=recording.manifest,
        comparison=answer,
        has_comparison=comparison is not None,
        passes=recording.passes,
        closeups=tuple(_closeups(recording, answer)),
        drawings=tuple(_drawings(recording, answer, problems)),
        problems=tuple(problems),
    )


def worst_layers(answer: Comparison) -> tuple[LayerResult, ...]:
    """The layers to look at closely: the culprit, then by error over floor and by effect."""
    differing = tuple(
        la for la in answer.layers if any(e is not None and e.mismatched for e in (la.local, la.accumulated))
    )
    culprit = [layer for layer in differing if layer.tensor == answer.verdict.culprit]
    made, telling = ordered(differing, "local")[:CLOSEUPS], ordered(differing, "effect")[:2]
    return tuple(dict.fromkeys((*culprit[:1], *telling, *made)))[:CLOSEUPS]


def _closeups(recording: Recording, answer: Comparison) -> Iterator[Closeup]:
    position = {layer: number for number, layer in enumerate(answer.layers)}
    for layer in worst_layers(answer):
        closeup = Closeup(layer=layer, position=position[layer])
        try:
            closeup = _with_values(closeup, recording)
            closeup = replace(closeup, steps=_steps(recording, layer))
        except RecordingError as error:
            closeup = replace(closeup, problem=error.fact)
        yield closeup


def _with_values(closeup: Closeup, recording: Recording) -> Closeup:
    layer = closeup.layer
    values = values_of(recording, layer)
    if values is None:
        return replace(closeup, problem=absence(layer))
    return replace(closeup, errors=error_histogram(values, layer), values=value_histogram(values, layer))


def _steps(recording: Recording, layer: LayerResult) -> tuple[Step, ...]:
    """The stages of a layer; none if the recording has lost its QNN graph."""
    graphs = [qnn for qnn in recording.qnn if (qnn.method, qnn.partition) == (layer.method, layer.partition)]
    if not any(tensor.name == layer.tensor for qnn in graphs for tensor in qnn.tensors):
        return ()
    return timeline(recording, layer.method, layer.partition, layer.tensor)


def _drawings(recording: Recording, answer: Comparison, problems: list[str]) -> Iterator[Drawing]:
    for number, view in enumerate(_views(recording, answer, problems)):
        if number == DRAWINGS:
            problems.append(f"more than {DRAWINGS} graphs; the others are not drawn")
            return
        try:
            yield Drawing(view=view, svg=svg_of(view, number))
        except DrawingError as error:
            yield Drawing(view=view, svg="", problem=str(error))


def _views(recording: Recording, answer: Comparison, problems: list[str]) -> Iterator[View]:
    """The only partition first; of several the program that they are in."""
    try:
        several = len(recording.qnn) > 1
    except RecordingError as error:
        problems.append(error.fact)
        return
    order = (_programs, _partitions) if several else (_partitions, _programs)
    for views_of in order:
        yield from views_of(recording, answer, problems)


def _partitions(recording: Recording, answer: Comparison, problems: list[str]) -> Iterator[View]:
    several = len(recording.qnn) > 1
    methods = len({qnn.method for qnn in recording.qnn}) > 1
    for qnn in recording.qnn:
        mine = {
            layer.tensor: (number, layer)
            for number, layer in enumerate(answer.layers)
            if (layer.method, layer.partition) == (qnn.method, qnn.partition)
        }
        worst = [la.tensor for la in worst_layers(answer) if la.tensor in mine and mine[la.tensor][1] == la]
        name = f"{qnn.method}, partition {qnn.partition}" if methods else f"Partition {qnn.partition}"
        try:
            graph = recording.graph(qnn.graph)
        except RecordingError as error:
            problems.append(error.fact)
            continue
        yield from views(graph, mine, name if several else "Graph", worst)


def _programs(recording: Recording, answer: Comparison, problems: list[str]) -> Iterator[View]:
    """Each method that is more than one partition."""
    for method in recording.manifest.methods:
        inside: dict[int, list[tuple[int, LayerResult]]] = {}
        for number, layer in enumerate(answer.layers):
            if layer.method == method.name:
                inside.setdefault(layer.partition, []).append((number, layer))
        try:
            outer = recording.last_graph("partition", method.name)
        except RecordingError as error:
            problems.append(error.fact)
            continue
        title = f"Program: {method.name}" if len(recording.manifest.methods) > 1 else "Program"
        view = program_view(outer, inside, title) if outer is not None else None
        if view is not None:
            yield view
