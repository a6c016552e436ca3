"""Dynamic shapes, control flow and custom ops: what can be compared is, and the rest is said clearly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qnndbg.pipeline.snapshots import list_snapshots, run_snapshot
from qnndbg.recording.place import numbered
from qnndbg.recording.store import Recording, open_recording
from tests.emulator.conftest import SCRIPTS, Command

HARD = ("dynamic", "mixed_shapes", "cond", "custom", "unfinished")
RAISE = 4
"""Lowerings that ExecuTorch itself raises in: all but ``custom``."""


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """All of them one after the other, in one script."""
    folder = tmp_path_factory.mktemp("hard")
    command = [sys.executable, "-m", "qnndbg", "record", "-q", str(SCRIPTS / "hard.py"), *HARD]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == RAISE, done.stderr[-3000:]
    return {name: open_recording(numbered(folder / "hard.qnndbg", n)) for n, name in enumerate(HARD)}


def shown(recording: Recording, command: Command) -> tuple[int, str]:
    done = command("show", str(recording.folder))
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join(done.stdout.split())


def fallbacks(recording: Recording) -> list[tuple[str, str]]:
    (method,) = recording.manifest.methods
    return [(fallback.op, fallback.reason) for fallback in method.fallbacks]


STATIC = "QNN's validator refused it: Tensor can only have static dimensions"
DYNAMIC = "QNN's validator refused it: Tensor incorrectly has dynamic dimensions."


def test_dynamic_shape_delegates_nothing_and_says_so(hard: dict[str, Recording], command: Command) -> None:
    recording = hard["dynamic"]
    assert fallbacks(recording) == [
        ("aten.linear.default", STATIC),
        ("aten.relu.default", DYNAMIC),
        ("aten.linear.default", STATIC),
    ]
    code, report = shown(recording, command)
    assert code == 5
    assert "nothing was delegated to the HTP; every op stays on the CPU" in report
    assert (
        "forward has a dynamic shape (axis 0 of input 0: 2 to 16): QNN refuses what depends on it" in report
    )
    assert f"On the CPU 2 aten.linear.default {STATIC} 1 aten.relu.default {DYNAMIC}" in report
    # Behind delegation ExecuTorch finds a linear that nobody took, and raises.
    assert "ExecuTorch refused the program behind delegation" in report


def test_what_has_a_fixed_shape_is_compared_beside_it(hard: dict[str, Recording], command: Command) -> None:
    recording = hard["mixed_shapes"]
    comparison = recording.comparison()
    assert recording.manifest.complete
    assert comparison is not None
    assert [layer.op for layer in comparison.layers if not layer.reason and not layer.given] == [
        "aten.linear.default",
        "aten.relu.default",
    ]
    assert comparison.coverage.share == 1.0
    assert fallbacks(recording) == [("aten.linear.default", STATIC), ("aten.relu.default", DYNAMIC)]
    shapes = [(given.tensor.shape, given.method) for given in recording.manifest.inputs]
    assert shapes == [((3, 4), "forward"), ((1, 8), "forward")]
    code, report = shown(recording, command)
    assert code == 0
    assert "axis 0 of input 0: 2 to 16" in report


def test_snapshots_of_a_dynamic_shape_run_again(hard: dict[str, Recording]) -> None:
    recording = hard["mixed_shapes"]
    results = [run_snapshot(recording, snapshot) for snapshot in list_snapshots(recording)]
    assert len(results) > 5
    for walk in results:
        assert walk.problems == {}
        assert [tuple(result.shape) for result in walk.results] == [(3, 8), (1, 2)]
        for result, first in zip(walk.results, results[0].results, strict=True):
            assert result.equal(first)


CONTROL = (
    "failed: AttributeError: 'CondOp' object has no attribute '_schema'; the graph has control flow "
    "(higher_order.cond), which the QNN backend does not take"
)


def test_lowering_behind_one_that_failed_is_one_of_its_own(hard: dict[str, Recording]) -> None:
    assert [event.index for event in hard["custom"].passes][:3] == [0, 1, 2]
    assert not numbered(hard["dynamic"].folder, len(HARD)).exists()


def test_control_flow_names_the_pass_and_the_op(hard: dict[str, Recording], command: Command) -> None:
    recording = hard["cond"]
    failure = recording.manifest.failure
    assert failure is not None
    assert failure.error == f"the pass LiftConstantScalarOperands of the stage export {CONTROL}"
    assert "torch.where" in failure.hint
    code, report = shown(recording, command)
    assert code == 0
    assert f"the recording ends early: lower failed {failure.error}" in report
    *_, before, event = recording.passes
    assert (event.name, event.before) == ("LiftConstantScalarOperands", before.after)
    assert "higher_order.cond" in {node.target for node in recording.graph(event.before).nodes}


def test_lowering_that_failed_early_has_what_it_takes_to_evaluate_it(hard: dict[str, Recording]) -> None:
    recording = hard["cond"]
    assert (recording.manifest.precision, recording.manifest.soc) == ("fp16", "SM8650")
    assert [given.tensor.shape for given in recording.manifest.inputs] == [(1, 4)]
    walk = run_snapshot(recording, list_snapshots(recording)[-1])
    assert tuple(walk.values["linear", 0].shape) == (1, 4)
    assert next(iter(walk.problems)) == "cond"  # and what depends on it


@pytest.mark.parametrize(("precision", "stage"), [("fp16", "export"), ("8a8w", "annotation")])
def test_control_flow_of_a_factory(precision: str, stage: str, command: Command) -> None:
    done = command("record", "-q", "-o", "a", f"{SCRIPTS / 'hard.py'}:cond_net", "--precision", precision)
    assert done.returncode == 4
    assert f"qnndbg: error: the pass LiftConstantScalarOperands of the stage {stage} {CONTROL}" in done.stderr
    assert "hint: lower the branches without it" in done.stderr


def test_custom_op_is_an_opaque_node(hard: dict[str, Recording], command: Command) -> None:
    recording = hard["custom"]
    assert fallbacks(recording) == [("qnndbg_tests.triple.default", "the backend has no builder for it")]
    for stage in ("export", "transform", "partition"):
        graph = recording.last_graph(stage)
        assert graph is not None
        assert [n.target for n in graph.nodes if "triple" in n.target] == ["qnndbg_tests.triple.default"]
    (method,) = recording.manifest.methods
    assert method.partitions == len(recording.qnn) == 2
    # The runtime has no kernel for it: the program cannot run, which is no bug of ours.
    failure = recording.manifest.failure
    assert failure is not None
    assert failure.error.startswith("the program cannot be executed")
    assert "has no kernel in this ExecuTorch" in failure.hint
    assert shown(recording, command)[0] == 0


def test_custom_op_is_not_executed_by_whoever_reads(hard: dict[str, Recording]) -> None:
    recording = hard["custom"]
    snapshot = list_snapshots(recording)[0]
    problems = run_snapshot(recording, snapshot).problems
    assert problems["triple"] == "qnndbg_tests.triple.default is not in a known operator namespace"


def test_custom_op_that_executorch_cannot_emit_names_pass_and_op(hard: dict[str, Recording]) -> None:
    failure = hard["unfinished"].manifest.failure
    assert failure is not None
    assert failure.error == (
        "the program cannot be emitted: the pass ToOutVarPass of the stage executorch failed: "
        "RuntimeError: Missing out variants: {'qnndbg_tests::double'}"
    )


def test_notes_name_no_place_of_this_machine(hard: dict[str, Recording]) -> None:
    for recording in hard.values():
        assert str(Path.home()) not in (recording.folder / "manifest.json").read_text(encoding="utf-8")
