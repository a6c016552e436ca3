"""Says why a lowering failed: the pass that raised, in its own words, and the op that it cannot take.

ExecuTorch's own message for a failed pass is a list of the passes before it.
"""

from __future__ import annotations

from typing import NamedTuple

from qnndbg.capture.failing_node import failing_node
from qnndbg.capture.lowering import Lowering
from qnndbg.capture.recorder import Recorder
from qnndbg.model.recording import Failure
from qnndbg.pipeline.calls import first_line
from qnndbg.recording.store import open_recording

CONTROL_FLOW = frozenset(
    f"higher_order.{name}" for name in ("cond", "while_loop", "map_impl", "map", "scan", "associative_scan")
)


class Reason(NamedTuple):
    """A fact and a hint."""

    fact: str
    hint: str


def failed_pass(recorder: Recorder) -> Reason | None:
    """The pass that raised, if one did."""
    event = recorder.failed
    if event is None:
        return None
    fact = f"the pass {event.name} of the stage {event.stage} failed: {event.error}"
    ops = _control_flow(recorder, event.before)
    if not ops:
        return Reason(fact, "the recording has the graph that the pass got")
    return Reason(
        f"{fact}; the graph has control flow ({', '.join(ops)}), which the QNN backend does not take",
        "lower the branches without it: compute all of them and choose with torch.where, or branch outside",
    )


def failure_at(recorder: Recorder, error: BaseException) -> Failure:
    """Where an exception came from: the stage, and the op that was worked on."""
    return Failure(step="lower", error=first_line(error), stage=recorder.latest, node=failing_node(error))


def not_delegated(lowering: Lowering) -> Failure:
    """Why a lowering in somebody's own code has nothing to measure."""
    reason = failed_pass(lowering.recorder)
    if reason is None:
        what = "the code never delegated to QNN"
        if lowering.edge_programs:
            what = f"delegation failed in the stage {lowering.recorder.latest}"
        reason = Reason(what, "what the code itself printed says more")
    return Failure(step="lower", error=reason.fact, hint=reason.hint)


def _control_flow(recorder: Recorder, digest: str) -> list[str]:
    if not digest:
        return []
    graph = open_recording(recorder.writer.folder).graph(digest)
    return sorted({node.target for node in graph.nodes} & CONTROL_FLOW)
