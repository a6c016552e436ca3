"""Completes the recording of a lowering: inputs, programs, and what the final program looks like."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from qnndbg.capture.lowering import Lowering
from qnndbg.capture.ports import methods_of
from qnndbg.capture.precision import precision_of, soc_of
from qnndbg.capture.session import Session
from qnndbg.capture.shapes import free_axes
from qnndbg.model.recording import Failure, Input, Method
from qnndbg.pipeline.calls import first_line
from qnndbg.pipeline.failures import failed_pass
from qnndbg.pipeline.jobs import MEASURES, Lowered, Samples
from qnndbg.pipeline.known import Inputs, stored_inputs
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer


def tapped_name(method: str) -> str:
    """The name of the program that dumps a method's intermediates."""
    return "htp-tapped" if method == "forward" else f"htp-tapped.{method}"


def finish(
    session: Session,
    lowering: Lowering,
    writer: Writer,
    further: Mapping[str, Sequence[Inputs]],
    samples: Samples | None = None,
) -> Lowered:
    """Write all that the measurements need, and say which can be made.

    Args:
        session: still instrumented.
        lowering: one of its own that delegated.
        writer: of its recording.
        further: method to inputs beside those with which it was exported.
        samples: labelled samples, for an accuracy.
    """
    manifest = writer.read_manifest()
    inputs: list[Input] = []
    for method, first in lowering.inputs.items():
        for sample, values in enumerate((first, *further.get(method, ()))):
            inputs += stored_inputs(writer, values, method, sample)
    writer.update_manifest(inputs=tuple(inputs))
    try:
        writer.program("htp", lowering.program())
    except Exception as error:  # noqa: BLE001 whatever ExecuTorch raises while it emits a program
        reason = failed_pass(lowering.recorder)
        why, hint = reason or (first_line(error), "")
        failure = Failure(step="lower", error=f"the program cannot be emitted: {why}", hint=hint)
        writer.update_manifest(failure=failure)
        return Lowered(folder=str(writer.folder.absolute()), steps=())
    notes = [note for method in lowering.edge_programs if (note := _tap(session, lowering, writer, method))]
    if lowering.shares_weights:
        notes.append("methods share weights, which the HTP emulator cannot execute: there is no rung htp")
    notes += _shape_notes(lowering)
    if lowering.rejected:
        notes.append(
            f"ExecuTorch refused the program behind delegation, so that the lowering raised: "
            f"{lowering.rejected}; what is compared is that program all the same"
        )
    writer.add_notes(*notes, *_unset_states(open_recording(writer.folder)))
    writer.update_manifest(
        methods=tuple(_with_delegation(lowering, method) for method in methods_of(lowering.emitted)),
        # The target's own name for it, else as the whole edge program says more than the first look did.
        precision=manifest.precision
        if manifest.precision not in {"", lowering.precision}
        else precision_of(lowering.edge_programs.values(), lowering.options),
        soc=manifest.soc or soc_of(lowering),
        op_packages=lowering.op_packages,
    )
    steps = MEASURES if not lowering.shares_weights else tuple(s for s in MEASURES if s != "htp")
    return Lowered(folder=str(writer.folder.absolute()), samples=samples, steps=steps)


def _tap(session: Session, lowering: Lowering, writer: Writer, method: str) -> str:
    """Build a method with the dump; gives a note if that fails."""
    try:
        writer.program(tapped_name(method), session.tapped_program(lowering, method))
    except Exception as error:  # noqa: BLE001 whatever the backend raises, the production build stands
        traceback.print_exc()
        return (
            f"no layer of {method} could be compared: building it with the dump failed: {first_line(error)}"
        )
    return ""


def _shape_notes(lowering: Lowering) -> list[str]:
    return [
        f"{method} has a dynamic shape ({', '.join(axes)}): QNN refuses what depends on it, so that stays on "
        "the CPU; all was compared in the shape of the recorded inputs"
        for method, program in lowering.edge_programs.items()
        if (axes := free_axes(program))
    ]


def _unset_states(recording: Recording) -> list[str]:
    """A note on each state that a partition holds: the program has no start value of it (1.5.1)."""
    return [
        f"the HTP starts the state {node.name} of {graph.method} from memory that nothing sets, the CPU "
        "from the module's buffer: their first values differ"
        for graph in recording.qnn
        for node in recording.graph(graph.graph).nodes
        if node.role == "state"
    ]


def _with_delegation(lowering: Lowering, method: Method) -> Method:
    delegation = lowering.delegations.get(method.name)
    if delegation is None:
        return method
    return replace(method, partitions=delegation.partitions, fallbacks=delegation.fallbacks)
