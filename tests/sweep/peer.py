"""Asks ExecuTorch's own debugger about the same lowering: does it work, and which layer does it name?

It gets the ETRecord of upstream's lowering, the inputs, and the ETDump of the build with the dump that
the recording holds, which comes of the same edge program; then ``Inspector.calculate_numeric_gap`` with
the QNN backend's own comparator by SQNR, against the graph that the backend's own
``QNNIntermediateDebugger`` takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from qnndbg.errors import WorkerCrashedError
from qnndbg.execute.worker import run_job
from tests.sweep.rows import Row
from tests.sweep.seam import ETRECORD, first_line

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
    etdump, debug = _dumped(place)
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
    found = [
        (math.nan if gap is None else float(gap), "+".join(ops))
        for gap, ops in zip((g[0] for g in gaps["gap"]), gaps["aot_ops"], strict=True)
    ]
    worst = min(((gap, op) for gap, op in found if not math.isnan(gap)), default=None)
    return {
        "peer": "works" if found else "nothing compared",
        "peer_compared": len(found),
        "peer_worst": "" if worst is None else f"{worst[1]} {worst[0]:.1f} dB",
    }


def _dumped(place: Path) -> tuple[Path, Path]:
    """Execute the build with the dump; gives the ETDump and its debug buffer."""
    from executorch.runtime import Runtime

    from qnndbg.execute.htp import ALIGNMENT, SLACK
    from qnndbg.pipeline.measure import _inputs, _room
    from qnndbg.recording.store import open_recording

    recording = open_recording(place)
    dumped, tensors = _room(recording, "forward")
    program = Runtime.get().load_program(
        (place / "programs" / "htp-tapped.pte").read_bytes(),
        enable_etdump=True,
        debug_buffer_size=dumped + tensors * ALIGNMENT + SLACK,
    )
    program.load_method("forward").execute(_inputs(recording, "forward", 0))
    paths = place.with_suffix(".etdp"), place.with_suffix(".debug")
    program.write_etdump_result_to_file(*map(str, paths))
    return paths
