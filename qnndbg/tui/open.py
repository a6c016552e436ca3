"""Which page shows a place; the one module that knows all of them, each imported when it is opened."""

from __future__ import annotations

from pathlib import Path

from qnndbg.tui.page import Page
from qnndbg.tui.places import LayerAt, PageAt, PassAt, Place
from qnndbg.tui.state import Session


def page_for(session: Session, place: Place, source: Path) -> Page:
    """Make the page of a place.

    Raises:
        RecordingError: the part of the recording that it needs is missing or damaged.
    """
    match place:
        case PageAt(name="overview"):
            from qnndbg.tui.overview import Overview

            return Overview(session)
        case PageAt(name="layers", query=query):
            from qnndbg.tui.layers import Layers

            return Layers(session, query)
        case PageAt(name="passes"):
            from qnndbg.tui.passes import Passes

            return Passes(session)
        case PassAt(position=position):
            from qnndbg.tui.passes import Passes

            return Passes(session, position)
        case LayerAt():
            from qnndbg.tui.layer import Layer

            return Layer(session, place, source)
    raise NotImplementedError(place)
