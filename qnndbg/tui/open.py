"""Which page shows a place; the one module that knows all of them, each imported when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qnndbg.errors import RecordingError, UsageError
from qnndbg.tui.page import Page
from qnndbg.tui.places import FindingAt, GraphAt, LayerAt, NodeAt, OutputAt, PageAt, PassAt, Place, TensorAt
from qnndbg.tui.state import Session

if TYPE_CHECKING:
    from pathlib import Path

    from qnndbg.tui.app import QnndbgApp


def page_for(app: QnndbgApp, place: Place) -> Page:
    """Make the page of a place in the recording that is looked at.

    Args:
        app: what the page is for.
        place: where to go.

    Raises:
        RecordingError: the part of the recording that it needs is missing or damaged.
        UsageError: the recording has no such place.
    """
    session = app.session
    match place:
        case PageAt(name="diff") if app.both is not None:
            from qnndbg.tui.diff import DiffPage

            return DiffPage(app.both)
        case PageAt(name="jobs"):
            from qnndbg.tui.job_page import JobPage

            return JobPage(session, app.jobs)
        case PageAt(name=name, query=query):
            return _main(session, name, query)
        case PassAt(position=position):
            from qnndbg.tui.passes import Passes

            return Passes(session, position)
        case LayerAt():
            from qnndbg.tui.layer import Layer

            return Layer(session, place, app.source)
        case FindingAt(position=position):
            from qnndbg.tui.findings import Findings

            return Findings(session, position)
        case GraphAt():
            from qnndbg.tui.graph import GraphPage

            return GraphPage(session, place)
        case NodeAt():
            return _node(session, place, app.source)
        case TensorAt():
            from qnndbg.tui.tensor import TensorPage

            return TensorPage(session, place)
        case OutputAt():
            return _output(session, place)


def _main(session: Session, name: str, query: str) -> Page:
    match name:
        case "passes":
            from qnndbg.tui.passes import Passes

            return Passes(session)
        case "layers":
            from qnndbg.tui.layers import Layers

            return Layers(session, query)
        case "graph":
            from qnndbg.tui.graph import GraphPage

            graphs = session.graphs
            at = session.edge_graph(session.main_method) or (graphs[-1] if graphs else None)
            if at is None:
                raise UsageError("the recording holds no graph")
            return GraphPage(session, at)
        case "log":
            from qnndbg.tui.log import Log

            return Log(session)
        case "findings":
            from qnndbg.tui.findings import Findings

            return Findings(session)
        case _:
            from qnndbg.tui.overview import Overview

            return Overview(session)


def _node(session: Session, place: NodeAt, folder: Path) -> Page:
    from qnndbg.tui.graph import NodePage
    from qnndbg.tui.twins import find

    at = place.graph or find(session, place.name)
    if at is None or place.name not in session.walk(session.located(at)).stops:
        raise UsageError(f"no graph of the recording has a node {place.name}")
    return NodePage(session, at, place.name, folder)


def _output(session: Session, place: OutputAt) -> Page:
    """An output of a rung, held against the rung before and against eager."""
    from qnndbg.tui.tensor import TensorPage

    rungs = [r.name for r in session.answer.ladder if (r.method, r.sample, r.output) == _key(place)]
    at = rungs.index(place.runner)
    sides = []
    for name in dict.fromkeys([*rungs[max(at - 1, 0) : at], place.runner, "eager"]):
        run = session.recording.run(name, place.method, place.sample)  # type: ignore[arg-type]
        ref = run.results[place.output] if run is not None and place.output < len(run.results) else None
        if ref is not None:
            sides.append((name, ref))
    if not sides:
        raise RecordingError(f"no values of {place.runner} were recorded")
    return TensorPage(session, TensorAt(f"output {place.output} of {place.runner}", tuple(sides)))


def _key(place: OutputAt) -> tuple[str, int, int]:
    return place.method, place.sample, place.output
