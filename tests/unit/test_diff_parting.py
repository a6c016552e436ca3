"""Where two hand-made lowerings part."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.model.diff import Diff, PassRun
from qnndbg.model.graph import Graph
from qnndbg.model.recording import Failure
from tests.unit.lowerings import Step, call, edited, encoding, lowering, net, plain, renamed

GELU = edited(plain(), "relu", target="aten.gelu.default")
COARSE = edited(plain(), "relu", encoding=encoding(0.4))


def compared(folder: Path, a: list[Step], b: list[Step], **options: Any) -> Diff:
    """The difference; B has other names than A."""
    fields_a = {key[2:]: value for key, value in options.items() if key.startswith("a_")}
    fields_b = {key[2:]: value for key, value in options.items() if key.startswith("b_")}
    left = lowering(folder / "a", a, **fields_a)
    right = lowering(folder / "b", [other_names(step) for step in b], **fields_b)
    return diff_recordings(left, right)


def other_names(step: Step) -> Step:
    graph = step[2]
    if graph is None:
        return step
    return (step[0], step[1], renamed(graph, {n.name: f"b_{n.name}" for n in graph.nodes}), *step[3:])


def steps(
    *passes: tuple[str, Graph | None], start: Graph | None = None, stage: str = "transform"
) -> list[Step]:
    """Export, then passes of one stage."""
    return [
        ("export", "", start or plain()),
        (stage, "", None),
        *((stage, name, graph) for name, graph in passes),
    ]


def parting(diff: Diff) -> tuple[str, str, PassRun | None, PassRun | None]:
    assert not diff.same
    assert diff.first_parting is not None
    found = diff.first_parting
    return found.kind, found.stage, found.a, found.b


def ran(index: int, name: str, *, changed: bool = True, error: str = "") -> PassRun:
    return PassRun(index=index, name=name, changed=changed, error=error)


def test_recordings_with_other_names_are_the_same(tmp_path: Path) -> None:
    diff = compared(tmp_path, steps(("P", GELU)), steps(("P", GELU)))
    assert diff.same
    assert (diff.first_parting, diff.passes, diff.graphs) == (None, (), ())


def test_pass_that_makes_another_graph_of_the_same_one(tmp_path: Path) -> None:
    a = steps(("P", None), ("Q", GELU), ("R", net(call("r", "relu", "x"))))
    b = steps(("P", None), ("Q", COARSE), ("R", net(call("r", "tanh", "x"))))
    diff = compared(tmp_path, a, b)
    assert parting(diff) == ("behaviour", "transform", ran(3, "Q"), ran(3, "Q"))
    assert diff.first_parting is not None
    assert diff.first_parting.graph is not None
    (node,) = diff.first_parting.graph.changed
    assert (node.a.name, node.b.name) == ("relu", "b_relu")
    assert {change.what for change in node.changes} == {"op", "scale"}


def test_pass_that_changes_the_graph_on_one_side_only(tmp_path: Path) -> None:
    diff = compared(tmp_path, steps(("P", None), ("Q", None)), steps(("P", None), ("Q", GELU)))
    assert parting(diff) == ("behaviour", "transform", ran(3, "Q", changed=False), ran(3, "Q"))
    assert [(d.a, d.b, d.moved) for d in diff.passes] == [(ran(3, "Q", changed=False), ran(3, "Q"), False)]


def test_pass_that_one_side_does_not_have(tmp_path: Path) -> None:
    diff = compared(tmp_path, steps(("P", None), ("R", None)), steps(("P", None), ("Q", GELU), ("R", None)))
    assert parting(diff) == ("only-in-one", "transform", None, ran(3, "Q"))
    assert [(d.a, d.b) for d in diff.passes] == [(None, ran(3, "Q"))]


def test_pass_that_one_side_does_not_have_and_that_does_nothing_is_no_parting(tmp_path: Path) -> None:
    diff = compared(tmp_path, steps(("P", None), ("R", GELU)), steps(("Q", None), ("P", None), ("R", COARSE)))
    assert parting(diff) == ("behaviour", "transform", ran(3, "R"), ran(4, "R"))


def test_pass_with_another_name_and_the_same_effect_is_no_parting(tmp_path: Path) -> None:
    a = steps(("FoldQDQ", GELU), ("R", None))
    b = steps(("FoldQdq", GELU), ("R", COARSE))
    assert parting(compared(tmp_path, a, b)) == (
        "behaviour",
        "transform",
        ran(3, "R", changed=False),
        ran(3, "R"),
    )


def test_passes_in_another_order_with_another_result(tmp_path: Path) -> None:
    a = steps(("P", GELU), ("Q", None), ("R", None))
    b = steps(("Q", COARSE), ("P", None), ("R", None))
    diff = compared(tmp_path, a, b)
    assert parting(diff)[0] == "order"
    assert [(d.a and d.a.name, d.moved) for d in diff.passes] == [("P", True), ("Q", False)]


def test_passes_in_another_order_with_the_same_result_part_and_meet_again(tmp_path: Path) -> None:
    both = edited(GELU, "relu", encoding=encoding(0.4))
    diff = compared(tmp_path, steps(("P", GELU), ("Q", both)), steps(("Q", COARSE), ("P", both)))
    assert parting(diff)[0] == "order"
    assert diff.graphs == ()


def test_models_that_differ_from_the_start(tmp_path: Path) -> None:
    diff = compared(tmp_path, steps(("P", None)), steps(("P", None), start=GELU))
    assert parting(diff) == ("start", "export", ran(0, "", changed=False), ran(0, "", changed=False))


def test_graphs_that_part_where_a_stage_begins(tmp_path: Path) -> None:
    a: list[Step] = [("export", "", plain()), ("export", "P", None), ("edge", "", plain())]
    b: list[Step] = [("export", "", plain()), ("export", "P", None), ("edge", "", GELU)]
    assert parting(compared(tmp_path, a, b))[:2] == ("between", "edge")


def test_stage_that_one_side_does_not_have(tmp_path: Path) -> None:
    a: list[Step] = [
        ("annotation", "", plain()),
        ("annotation", "P", None),
        ("quantized", "convert_pt2e", GELU),
    ]
    rest: list[Step] = [("export", "", GELU), ("export", "P", None)]
    diff = compared(tmp_path, [*a, *rest], steps(("P", None), stage="export"))
    kind, stage, left, right = parting(diff)
    assert (kind, stage, right) == ("only-in-one", "quantized", None)
    assert left is not None
    assert left.name == "convert_pt2e"


def test_pass_that_fails_on_one_side(tmp_path: Path) -> None:
    failed: Step = ("transform", "Q", None, {"after": "", "error": "KeyError: 'val'"})
    a = steps(("P", None), ("Q", GELU), ("R", None))
    b = [*steps(("P", None)), failed]
    ended = Failure(step="lower", error="Q failed")
    diff = compared(tmp_path, a, b, b_complete=False, b_failure=ended)
    assert parting(diff) == (
        "failed",
        "transform",
        ran(3, "Q"),
        ran(3, "Q", changed=False, error="KeyError: 'val'"),
    )
    assert diff.b.failure == "lower: Q failed"


def test_partition_has_a_way_of_its_own(tmp_path: Path) -> None:
    def lowered(graph: Graph) -> list[Step]:
        return [*steps(("P", None)), ("preprocess", "", plain()), ("preprocess", "FoldQDQ", graph)]

    diff = compared(tmp_path, lowered(GELU), lowered(COARSE))
    assert parting(diff) == ("behaviour", "preprocess", ran(4, "FoldQDQ"), ran(4, "FoldQDQ"))
    assert diff.first_parting is not None
    assert diff.first_parting.partition == 0


def test_numbers_that_differ_though_all_graphs_are_the_same(tmp_path: Path) -> None:
    answers = {"eager": [1.0, 2.0], "quantized": [1.0, 2.5], "htp": [1.0, 2.0]}
    cases = (("htp", "htp"), ("quantized", "reference"), ("eager", "reference"))
    for runner, kind in cases:
        other = {**answers, runner: [9.0, 9.0], "htp": [9.0, 9.0]}
        diff = compared(
            tmp_path / runner, steps(("P", None)), steps(("P", None)), a_results=answers, b_results=other
        )
        assert diff.first_parting is not None
        assert (diff.first_parting.kind, diff.first_parting.what) == (kind, runner)
        assert [output.runner for output in diff.outputs] == list(dict.fromkeys([runner, "htp"]))


def test_outputs_are_not_held_against_one_another_if_the_inputs_differ(tmp_path: Path) -> None:
    one, two = {"htp": [1.0]}, {"htp": [2.0]}
    same = steps(("P", None))
    diff = compared(tmp_path, same, same, a_results=one, b_results=two, b_given=(3.0, 4.0))
    assert diff.first_parting is not None
    assert diff.first_parting.kind == "inputs"
    assert diff.outputs == ()
    assert "inputs differ" in diff.outputs_note


def test_outputs_are_measured_against_one_another(tmp_path: Path) -> None:
    same = steps(("P", None))
    diff = compared(tmp_path, same, same, a_results={"htp": [3.0, 4.0]}, b_results={"htp": [3.0, 4.5]})
    (output,) = diff.outputs
    assert (output.max_abs, output.mismatched, output.elements) == (0.5, 1, 2)
    assert output.sqnr_db is not None
    assert output.sqnr_db == pytest.approx(10 * math.log10((3**2 + 4.5**2) / 0.5**2))


def test_outputs_that_are_not_stored_differ_all_the_same(tmp_path: Path) -> None:
    same = steps(("P", None))
    left = lowering(tmp_path / "a", same, results={"htp": [3.0, 4.0]})
    right = lowering(tmp_path / "b", same, results={"htp": [3.0, 4.5]})
    shutil.rmtree(right.folder / "tensors")
    diff = diff_recordings(left, right)
    assert diff.first_parting is not None
    assert diff.first_parting.kind == "htp"
    (output,) = diff.outputs
    assert (output.sqnr_db, output.note.partition(";")[0]) == (None, "they differ")


def test_recording_that_holds_nothing_can_be_compared(tmp_path: Path) -> None:
    empty, full = lowering(tmp_path / "a", [], complete=False), lowering(tmp_path / "b", steps(("P", GELU)))
    assert diff_recordings(empty, empty).same
    assert parting(diff_recordings(empty, full)) == ("only-in-one", "transform", None, ran(2, "P"))


def test_environment_alone_is_no_difference(tmp_path: Path) -> None:
    diff = compared(tmp_path, steps(("P", None)), steps(("P", None)), b_soc="SM8750", b_precision="16a8w")
    assert diff.same
    assert [(c.what, c.a, c.b) for c in diff.environment] == [
        ("precision", "fp16", "16a8w"),
        ("soc", "SM8650", "SM8750"),
    ]


def test_program_of_another_size_parts_at_the_compile(tmp_path: Path) -> None:
    same = steps(("P", None))
    left, right = (lowering(tmp_path / side, same) for side in "ab")
    for recording, size in ((left, 100), (right, 120)):
        (recording.folder / "programs").mkdir()
        (recording.folder / "programs/htp.pte").write_bytes(bytes(size))
    diff = diff_recordings(left, right)
    assert diff.first_parting is not None
    assert (diff.first_parting.kind, diff.first_parting.what) == ("program", "bytes of htp")


def test_times_are_no_difference(tmp_path: Path) -> None:
    def timed(seconds: float) -> list[Step]:
        return [("export", "", plain()), ("export", "P", None, {"seconds": seconds})]

    diff = compared(tmp_path, timed(1.0), timed(3.0))
    assert diff.same
    assert [(time.stage, time.b / time.a) for time in diff.times] == [("export", 3.0)]
    assert replace(diff, times=()) == replace(compared(tmp_path / "x", timed(1.0), timed(1.0)), times=())
