"""Outputs that hold something else than was computed, and dumps that only look as if they did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qnndbg.analyze.payload import payloads_of
from qnndbg.analyze.verdict import Payload
from qnndbg.model.graph import Graph, Node, Origin, Output, Ref
from qnndbg.model.recording import Input, PassEvent, QnnGraph, Run, RunnerName
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from tests.unit.recordings import manifest, node

VALUES = np.array([[2.0, 1.5]], np.float32)
INDICES = np.array([[3, 1]], np.int64)
PAIRS = np.array([[3 + (1 << 32), 0]], np.int64)
"""Three and one as int32, side by side in the first number."""
Outputs = tuple[np.ndarray, ...]


def found(
    folder: Path, given: Outputs, computed: Outputs | None = None, expected: Outputs = (VALUES, INDICES)
) -> tuple[Payload, ...]:
    """Of a topk in the only partition, whose two outputs are those of the program."""
    writer = Writer(folder)
    x = writer.tensor(VALUES)
    writer.manifest(manifest(inputs=(Input(name="x", tensor=x),)))
    topk = node("topk", "aten.topk.default", multiple=True, origin=Origin(source="net.py:3"))
    picked = tuple(node(f"get{i}", "operator.getitem", args=(Ref("topk"), i)) for i in (0, 1))
    outputs = tuple(Output(value=Ref(f"get{i}")) for i in (0, 1))
    inner = writer.graph(Graph(nodes=(topk, *picked), outputs=outputs))
    writer.qnn_graph(QnnGraph(method="forward", partition=0, graph=inner, ops=(), tensors=()))
    lowered = Node(name="lowered", op="get_attr", target="lowered_module_0")
    call = node("call", "higher_order.executorch_call_delegate", args=(Ref("lowered"),), multiple=True)
    picked = tuple(node(f"get{i}", "operator.getitem", args=(Ref("call"), i)) for i in (0, 1))
    outer = Graph(nodes=(lowered, call, *picked), outputs=outputs, partitions={"lowered_module_0": 0})
    writer.pass_event(PassEvent(index=0, stage="partition", name="", after=writer.graph(outer)))
    runs: dict[RunnerName, Outputs] = {
        "htp-tapped": given,
        "local": (VALUES, INDICES) if computed is None else computed,
        "reference": expected,
    }
    for runner, results in runs.items():
        writer.run(Run(runner=runner, results=tuple(writer.tensor(result) for result in results)))
    return payloads_of(open_recording(folder))


def payload(output: int, detail: str, wide: int | None = None) -> Payload:
    return Payload(
        method="forward",
        output=output,
        tensor=f"output {output}",
        op="aten.topk.default",
        source="net.py:3",
        detail=detail,
        wide=wide,
    )


def test_what_was_computed_is_handed_out(tmp_path: Path) -> None:
    assert found(tmp_path, (VALUES, INDICES)) == ()


def test_pairs_of_int32_in_int64(tmp_path: Path) -> None:
    said = "it is declared int64 and holds int32, two of them in each number"
    assert found(tmp_path, (VALUES, PAIRS)) == (payload(1, said),)


def test_outputs_the_other_way_round(tmp_path: Path) -> None:
    as_float = INDICES.astype(np.int32).view(np.float32)
    as_long = np.frombuffer(VALUES.tobytes() + bytes(8), np.int64).reshape(1, 2)
    assert found(tmp_path, (as_float, as_long)) == (
        payload(0, "outputs 0 and 1 are swapped", wide=1),
        payload(1, "outputs 0 and 1 are swapped"),
    )


def test_outputs_are_swapped_though_a_float_is_off_in_the_last_place(tmp_path: Path) -> None:
    as_float = INDICES.astype(np.int32).view(np.float32)
    nearly = np.nextafter(VALUES, np.float32(9))
    as_long = np.frombuffer(nearly.tobytes() + bytes(8), np.int64).reshape(1, 2)
    details = [one.detail for one in found(tmp_path, (as_float, as_long))]
    assert details == ["outputs 0 and 1 are swapped"] * 2


def test_one_output_in_the_place_of_another(tmp_path: Path) -> None:
    as_float = INDICES.astype(np.int32).view(np.float32)
    assert found(tmp_path, (as_float, INDICES)) == (payload(0, "it holds the bytes of output 1", wide=1),)


def test_something_else_is_told_in_decibels(tmp_path: Path) -> None:
    # Off by a tenth everywhere, which is 20 dB; what was computed is off by a thousandth, 60 dB.
    (one,) = found(tmp_path, (VALUES * np.float32(1.1), INDICES), (VALUES * np.float32(1.001), INDICES))
    assert one.detail == "the tensor that was computed has 60 dB and the output 20 dB"


def test_a_wrong_dump_of_a_right_output_is_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, (VALUES, INDICES), computed=(VALUES, PAIRS)) == ()


def test_an_output_as_wrong_as_what_was_computed_is_no_finding(tmp_path: Path) -> None:
    wrong = VALUES * np.float32(1.1)
    assert found(tmp_path, (wrong, INDICES), computed=(wrong, INDICES)) == ()


@pytest.mark.parametrize("missing", ["htp-tapped", "local", "reference"])
def test_a_run_that_is_missing_leaves_nothing_to_say(missing: str, tmp_path: Path) -> None:
    assert found(tmp_path, (VALUES, PAIRS)) != ()
    (tmp_path / f"runs/{missing}.json").unlink()
    assert payloads_of(open_recording(tmp_path)) == ()


def test_an_output_of_another_shape_is_left_to_the_ladder(tmp_path: Path) -> None:
    assert found(tmp_path, (VALUES, PAIRS.reshape(2, 1))) == ()
