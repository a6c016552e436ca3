"""Asks ExecuTorch's own debugger about the same lowering: does it work, and which layer does it name?

It gets the ETRecord of upstream's lowering with the maps of the build with the dump, which comes of the same
edge program, the inputs, and that build's ETDump; then ``Inspector.calculate_numeric_gap`` with
the QNN backend's own comparator by SQNR, against the graph that the backend's own
``QNNIntermediateDebugger`` takes.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from qnndbg.recording.store import Recording, open_recording
from tests.sweep.rows import ETRECORD, first_line

REFERENCE_GRAPH = "edge_after_transform/forward"


def ask(place: Path, etrecord: Any, tapped: Any) -> dict[str, Any]:
    """The columns of a row that are its answer.

    Args:
        place: of the recording.
        etrecord: of upstream's lowering, in memory: written to a file it loses encodings and axis orders.
        tapped: the program manager of the build with the dump.
    """
    try:
        # Only a lowering with the dump knows to which op a dumped tensor belongs.
        etrecord._debug_handle_map = tapped.debug_handle_map
        etrecord._delegate_map = tapped.delegate_map
        etrecord._instruction_id_to_num_outs_map = tapped.instruction_id_to_num_outs_map
        file = place.with_suffix(ETRECORD)
        file.unlink(missing_ok=True)
        etrecord.save(str(file))
        return _answer(place, etrecord.graph_map[REFERENCE_GRAPH])
    except Exception as error:  # noqa: BLE001 whatever it raises is the answer
        return {"peer": first_line(error)}


def _answer(place: Path, edge: Any) -> dict[str, Any]:
    from executorch.backends.qualcomm.debugger.qcom_numerical_comparator_sample import QcomSQNRComparator
    from executorch.devtools import Inspector

    recording = open_recording(place)
    if recording.run("htp-tapped") is None:
        return {"peer": "nothing dumped"}
    with tempfile.TemporaryDirectory() as scratch:
        etdump, debug = Path(scratch, "etdump"), Path(scratch, "debug")
        _dump(recording, etdump, debug)
        inspector = Inspector(
            etdump_path=str(etdump),
            debug_buffer_path=str(debug),
            etrecord=str(place.with_suffix(ETRECORD)),
            reference_graph_name=REFERENCE_GRAPH,
        )
        gaps = inspector.calculate_numeric_gap(
            distance=QcomSQNRComparator(edge_ep=edge), reference_graph=REFERENCE_GRAPH
        )
    if gaps.empty:
        return {"peer": "nothing compared"}
    numbers = [math.nan if gap[0] is None else float(gap[0]) for gap in gaps["gap"]]
    found = [(gap, _name(ops)) for gap, ops in zip(numbers, gaps["aot_ops"], strict=True)]
    worst = min(((gap, op) for gap, op in found if not math.isnan(gap)), default=None)
    return {
        "peer": "works",
        "peer_compared": len(found),
        "peer_worst": "" if worst is None else f"{worst[1]} {worst[0]:.1f} dB",
    }


def _name(ops: list[str]) -> str:
    """The last of the ops that it takes together, and how many those are."""
    return ops[-1] if len(ops) == 1 else f"{ops[-1]} (of {len(ops)} together)"


def _dump(recording: Recording, etdump: Path, debug: Path) -> None:
    """Execute the build with the dump again, and write what ExecuTorch's own debugger reads."""
    from executorch.runtime import Runtime

    from qnndbg.execute.htp import ALIGNMENT, SLACK
    from qnndbg.pipeline.stored import tensor_from

    run = recording.run("htp-tapped")
    assert run is not None
    inputs = [tensor_from(recording, given.tensor) for given in recording.inputs()]
    logged = [value.tensor for value in run.values] + [ref for ref in run.results if ref is not None]
    room = sum(recording.tensor(ref).nbytes + ALIGNMENT for ref in logged)
    room += sum(one.nbytes + ALIGNMENT for one in inputs)
    program = Runtime.get().load_program(
        (recording.folder / "programs" / "htp-tapped.pte").read_bytes(),
        enable_etdump=True,
        debug_buffer_size=2 * room + SLACK,  # one that is too small aborts the process
    )
    program.load_method("forward").execute(inputs)
    program.write_etdump_result_to_file(str(etdump), str(debug))
