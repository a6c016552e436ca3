"""Counts, behind the table's back, which values the HTP holds at an end of their range."""

from __future__ import annotations

from textual.worker import get_current_worker

from qnndbg.analyze.elements import saturated
from qnndbg.errors import RecordingError
from qnndbg.tui.places import LayerAt
from qnndbg.tui.state import Session


def fill_in(session: Session) -> bool:
    """Fill in what is not known yet; for a thread. False if the screen went before it was done."""
    worker = get_current_worker()
    todo = [key for key, layer in session.layers.items() if key not in session.saturation and layer.encoding]
    for key in todo:
        session.wait_for_rest()
        if worker.is_cancelled:
            return False
        session.saturation[key] = _share(session, key)
    return True


def _share(session: Session, key: LayerAt) -> float | None:
    """None where it is not known; a tensor that cannot be read is said when its layer is opened."""
    ref, layer = session.sides(key).get("htp-tapped"), session.layers[key]
    if ref is None or layer.encoding is None or layer.reason or layer.given:
        return None
    try:
        return saturated(session.recording.tensor(ref), layer.encoding)
    except RecordingError:
        return None
