"""Asks ExecuTorch's own debugger about the same lowering: does it work, and which layer does it name?

It gets the ETRecord of upstream's lowering, the inputs, and the ETDump of the build with the dump that
the recording holds, which comes of the same edge program; then ``Inspector.calculate_numeric_gap`` with
the QNN backend's own comparator by SQNR, against the graph that the backend's own
``QNNIntermediateDebugger`` takes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from qnndbg.errors import WorkerCrashedError
from qnndbg.execute.worker import run_job
from qnndbg.recording.store import Recording, open_recording
from tests.sweep.rows import ETRECORD, Row, first_line

REFERENCE_GRAPH = "edge_after_transform/forward"
LOG = "peer.log"


def ask(rows: Iterable[Row], keep: Path) -> list[Row]:
    """The rows, with the answer for each that has an ETRecord."""
    rows = list(rows)
    waiting = [i for i, row in enumerate(rows) if row.status == "recorded" and not row.peer]

    def answered(event: dict[str, object]) -> None:
        if "answer" in event:
            at = waiting.pop(0)
            rows[at] = replace(rows[at], **msgspec.convert(event["answer"], dict[str, Any]))

    while waiting:
        places = [str(keep / rows[i].recording) for i in waiting]
        try:
            run_job("tests.sweep.peer:work", {"places": places}, log=keep / LOG, on_event=answered)
        except WorkerCrashedError as error:
            answered({"answer": {"peer": f"crashed: {error.fact}"}})
    return rows


def work(payload: dict[str, list[str]], report: Callable[[dict[str, object]], None]) -> None:
    """Answer for each recording, in a process that may die of it."""
    from tests.sweep import upstream

    upstream.load()  # the comparator is in a package that imports what may be missing
    for place in payload["places"]:
        try:
            answer = _answer(Path(place))
        except Exception as error:  # noqa: BLE001 whatever it raises is the answer
            answer = {"peer": first_line(error)}
        report({"answer": answer})


def _answer(place: Path) -> dict[str, object]:
    from executorch.backends.qualcomm.debugger.qcom_numerical_comparator_sample import QcomSQNRComparator
    from executorch.devtools import Inspector, parse_etrecord

    etrecord = place.with_suffix(ETRECORD)
    if not etrecord.exists():
        return {"peer": "no ETRecord: the upstream test does not emit the program itself"}
    with tempfile.TemporaryDirectory() as scratch:
        etdump, debug = Path(scratch, "etdump"), Path(scratch, "debug")
        _dump(open_recording(place), etdump, debug)
        inspector = Inspector(
            etdump_path=str(etdump),
            debug_buffer_path=str(debug),
            etrecord=str(etrecord),
            reference_graph_name=REFERENCE_GRAPH,
        )
        edge = parse_etrecord(str(etrecord)).graph_map[REFERENCE_GRAPH]
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
    from qnndbg.pipeline.refer import tensor_from

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
