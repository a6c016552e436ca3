"""What ExecuTorch's own debugger says of a case: the op whose output has the least SQNR.

It compares with the edge graph after its transforms, so what the quantiser and the passes did before is on
both sides, and it can see none of it. A case is lowered again for it, since it needs the live programs.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.blame.forking import run_forked
from benchmarks.blame.judging import Order
from qnndbg.errors import QnndbgError

SOC = "SM8650"
GRAPH = "edge_after_transform/forward"
BUFFER = 1 << 26
"""Bytes for dumped tensors; those of small nets take a fraction of it."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    ops: tuple[str, ...] = ()
    """The worst layer's op, or ops where a layer is several."""
    sqnr: float = math.inf
    error: str = ""
    """Why it said nothing."""


def ask(order: Order, keep: Path) -> None:
    """Ask about a case, in a fork.

    Args:
        order: the case.
        keep: gets the answer, in ``NAME.peer.json``.
    """
    payload = {"target": order.target, "precision": order.precision}
    try:
        said = run_forked("benchmarks.blame.peer:work", payload, log=keep / f"{order.name}.peer.log")
    except QnndbgError as error:
        said = {"error": error.fact}
    _place(keep, order.name).write_bytes(msgspec.json.encode(said))


def read(keep: Path, name: str) -> Said | None:
    """What it said of a case; None if it was not asked."""
    path = _place(keep, name)
    return msgspec.json.decode(path.read_bytes(), type=Said) if path.exists() else None


def _place(keep: Path, name: str) -> Path:
    return keep / f"{name}.peer.json"


def work(payload: dict[str, str], _report: Callable[[object], None]) -> object:
    """Lower, execute and compare as its ``QNNIntermediateDebugger`` does, but for the drawing."""
    from executorch.backends.qualcomm.debugger.qcom_numerical_comparator_sample import QcomSQNRComparator
    from executorch.devtools import Inspector
    from executorch.runtime import Runtime

    program, inputs = _lowered(payload["target"], payload["precision"])
    record = program.get_etrecord()
    record.update_representative_inputs(inputs)
    # Before it is saved, which loses the encodings.
    comparator = QcomSQNRComparator(edge_ep=record.graph_map[GRAPH])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record.save(str(folder / "etrecord.bin"))
        loaded = Runtime.get().load_program(program.buffer, enable_etdump=True, debug_buffer_size=BUFFER)
        loaded.load_method("forward").execute(list(inputs))
        loaded.write_etdump_result_to_file(str(folder / "etdump"), str(folder / "debug"))
        inspector = Inspector(
            etdump_path=str(folder / "etdump"),
            debug_buffer_path=str(folder / "debug"),
            etrecord=str(folder / "etrecord.bin"),
            reference_graph_name=GRAPH,
        )
        table = inspector.calculate_numeric_gap(distance=comparator, reference_graph=GRAPH)
    return _worst(table)


def _worst(table: Any) -> dict[str, object]:
    rows = [(float(row["gap"][0]), row["aot_ops"]) for _, row in table.iterrows()]
    rows = [(gap, ops) for gap, ops in rows if not math.isnan(gap)]
    if not rows:
        return {"error": "it compares nothing"}
    gap, ops = min(rows, key=lambda row: row[0])
    return {"ops": [str(op) for op in ops], "sqnr": max(-1e9, min(gap, 1e9))}


def _lowered(target: str, precision: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import (
        generate_htp_compiler_spec,
        generate_qnn_executorch_compiler_spec,
        to_edge_transform_and_lower_to_qnn,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from qnndbg.pipeline.target import load_target

    made = load_target(target)
    module: Any = made.module
    inputs: tuple[Any, ...] = made.inputs
    if precision != "fp16":
        graph = torch.export.export(module, inputs, strict=True).module()
        assert made.quantizer is not None
        module = prepare_pt2e(graph, made.quantizer(graph))
        for sample in made.calibration:
            module(*sample)
        module = convert_pt2e(module)
    specs = generate_qnn_executorch_compiler_spec(
        soc_model=QcomChipset[SOC],
        backend_options=generate_htp_compiler_spec(use_fp16=precision == "fp16"),
        dump_intermediate_outputs=True,
    )
    manager = to_edge_transform_and_lower_to_qnn(
        module, inputs, specs, generate_etrecord=True, **dict(made.lowering)
    )
    return manager.to_executorch(), inputs
