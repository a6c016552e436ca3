"""Counts, behind the table's back, which values the HTP holds at an end of their range."""

from __future__ import annotations

from textual.worker import get_current_worker

from qnndbg.analyze.elements import saturated
from qnndbg.tui.state import Session


def fill_in(session: Session) -> bool:
    """Fill in what is not known yet; for a thread. False if the screen went before it was done."""
    worker = get_current_worker()
    todo = [key for key, layer in session.layers.items() if key not in session.saturation and layer.encoding]
    for key in todo:
        session.wait_for_rest()
        if worker.is_cancelled:
            return False
        ref = session.sides(key).get("htp-tapped")
        layer = session.layers[key]
        known = ref is not None and layer.encoding is not None and not layer.reason
        session.saturation[key] = (
            saturated(session.recording.tensor(ref), layer.encoding) if known else None  # type: ignore[arg-type]
        )
    return True
