"""Every way into the lowering is captured, and odd models too; what stays on the CPU says why."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
import torch

from qnndbg.model.recording import Fallback, Stage
from qnndbg.pipeline.snapshots import list_snapshots, run_snapshot
from qnndbg.pipeline.stored import tensor_from
from qnndbg.recording.place import numbered
from qnndbg.recording.store import Recording, open_recording
from tests.emulator.conftest import SCRIPTS, Command, Recorded

WAYS = (
    *("deprecated", "skip_op", "skip_id", "skip_all", "without_a_pass"),
    *("rank6", "methods", "shared", "refused"),
)
STAGES = tuple(stage for stage in get_args(Stage) if stage not in {"annotation", "quantized"})
CPU = ("eager", "export", "edge", "transform", "reference")
RUNS = {*CPU, "local", "htp-tapped", "htp", "held"}


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """All ways into the lowering one after the other, in one script; the last one fails."""
    folder = tmp_path_factory.mktemp("ways")
    command = [sys.executable, "-m", "qnndbg", "record", "-q", str(SCRIPTS / "ways.py"), *WAYS]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr[-3000:]
    assert "AssertionError: Failed to generate Qnn context binary." in done.stderr
    places = {way: numbered(folder / "ways.qnndbg", number) for number, way in enumerate(WAYS)}
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in places.values())
    return {way: open_recording(place) for way, place in places.items()}


def share(recording: Recording) -> float | None:
    comparison = recording.comparison()
    assert comparison is not None
    return comparison.coverage.share


def results(recording: Recording, runner: str, method: str = "forward") -> tuple[object, ...]:
    run = recording.run(runner, method)  # type: ignore[arg-type]
    assert run is not None
    return run.results


@pytest.mark.parametrize("way", [way for way in WAYS if way != "refused"])
def test_every_way_leaves_a_whole_recording(way: str, ways: dict[str, Recording]) -> None:
    recording = ways[way]
    manifest = recording.manifest
    assert (manifest.complete, manifest.failure) == (True, None)
    assert (manifest.precision, manifest.soc) == ("fp16", "SM8650")
    assert share(recording) == (None if way == "skip_all" else 1.0)
    methods = ("small", "large") if way in {"methods", "shared"} else ("forward",)
    assert recording.methods == methods
    assert {method.name for method in manifest.methods} == set(methods)
    for method in methods:
        ran = {run.runner for run in recording.runs.values() if run.method == method}
        assert ran == RUNS - ({"htp"} if way == "shared" else set())
        assert len({results(recording, runner, method) for runner in CPU}) == 1  # by digest


@pytest.mark.parametrize("way", [way for way in WAYS if way != "refused"])
def test_every_way_goes_through_the_same_stages(way: str, ways: dict[str, Recording]) -> None:
    events = ways[way].passes
    for method in ways[way].methods:
        stages = tuple(dict.fromkeys(event.stage for event in events if event.method == method))
        expected = tuple(stage for stage in STAGES if stage != "preprocess" or way != "skip_all")
        # Methods are preprocessed together, and then delegated.
        assert sorted(stages, key=get_args(Stage).index) == list(expected)
    assert [event.index for event in events] == list(range(len(events)))
    assert [event for event in events if event.error] == []


def test_the_deprecated_way_runs_the_same_passes(ways: dict[str, Recording]) -> None:
    def names(way: str, stage: Stage) -> list[str]:
        return [event.name for event in ways[way].passes if event.stage == stage and event.name]

    for stage in ("transform", "preprocess"):
        assert names("deprecated", stage) == names("rank6", stage)
    assert names("deprecated", "edge")[-1] == "to_edge"
    (method,) = ways["deprecated"].manifest.methods
    assert (method.partitions, method.fallbacks) == (1, ())
    assert [port and (port.shape, port.dtype) for port in (*method.inputs, *method.outputs)] == [
        ((1, 3, 8, 8), "float32"),
        ((1, 4), "float32"),
    ]


SKIPPED = "on the caller's skip list"
REFUSED = "QNN's validator refused it: [4294967295] has incorrect Rank 6."


@pytest.mark.parametrize(
    ("way", "partitions", "fallbacks"),
    [
        ("skip_op", 2, [("aten_relu_default", "aten.relu.default", SKIPPED)]),
        ("skip_id", 2, [("aten_add_tensor", "aten.add.Tensor", SKIPPED)]),
        ("skip_all", 0, [("aten_relu_default", "aten.relu.default", SKIPPED)]),
        (
            *("rank6", 1),
            [
                ("aten_view_copy_default", "aten.view_copy.default", REFUSED),
                ("aten_permute_copy_default", "aten.permute_copy.default", REFUSED),
            ],
        ),
        ("without_a_pass", 1, []),
    ],
)
def test_what_stays_on_the_cpu_says_why(
    way: str, partitions: int, fallbacks: list[tuple[str, str, str]], ways: dict[str, Recording]
) -> None:
    (method,) = ways[way].manifest.methods
    assert method.partitions == partitions == len(ways[way].qnn)
    assert list(method.fallbacks) == [Fallback(node=n, op=op, reason=why) for n, op, why in fallbacks]
    graph = ways[way].last_graph("partition")
    assert graph is not None
    kept = [node.name for node in graph.nodes if node.target.startswith("aten.")]
    assert kept == [node for node, _, _ in fallbacks]


def test_reasons_are_in_the_report(ways: dict[str, Recording], command: Command) -> None:
    report = " ".join(command("show", str(ways["skip_op"].folder)).stdout.split())
    assert f"On the CPU 1 aten.relu.default {SKIPPED}" in report
    nothing = command("show", str(ways["skip_all"].folder))
    assert nothing.returncode == 5
    assert "nothing was delegated to the HTP" in nothing.stdout
    assert f"On the CPU 1 aten.relu.default {SKIPPED}" in " ".join(nothing.stdout.split())


def test_pass_that_the_caller_switched_off_does_not_run(ways: dict[str, Recording]) -> None:
    counts = {
        way: Counter(event.name for event in ways[way].passes if event.stage == "transform")
        for way in ("rank6", "without_a_pass")
    }
    assert counts["rank6"] - counts["without_a_pass"] == Counter({"FixedLinearKeepDim": 1})


def test_methods_are_tapped_each_on_its_own(ways: dict[str, Recording]) -> None:
    for way in ("methods", "shared"):
        recording = ways[way]
        assert [(graph.method, graph.partition) for graph in recording.qnn] == [("large", 0), ("small", 0)]
        for graph in recording.qnn:
            shapes = {tensor.name: tensor.shape for tensor in graph.tensors}
            size = {"small": 6, "large": 14}[graph.method]
            assert shapes["aten_convolution_default@0"] == (1, size, size, 8)
            run = recording.run("htp-tapped", graph.method)
            assert run is not None
            made = {name for op in graph.ops for name in op.outputs}
            assert {value.name for value in run.values} >= made
        comparison = recording.comparison()
        assert comparison is not None
        computed = [layer for layer in comparison.layers if not layer.reason and not layer.given]
        assert Counter(layer.method for layer in computed) == {"small": 6, "large": 6}
        assert {rung.method for rung in comparison.ladder} == {"small", "large"}


@pytest.mark.parametrize("way", ["methods", "shared", "deprecated", "skip_op"])
def test_every_snapshot_of_every_method_is_the_module(way: str, ways: dict[str, Recording]) -> None:
    recording = ways[way]
    for method in recording.methods:
        run = recording.run("eager", method)
        assert run is not None
        expected = [tensor_from(recording, ref) for ref in run.results if ref is not None]
        snapshots = list_snapshots(recording, method)
        assert {snapshot.stage for snapshot in snapshots} == set(STAGES)
        for snapshot in snapshots:
            walk = run_snapshot(recording, snapshot)
            assert walk.problems == {}
            assert all(map(torch.equal, walk.results, expected)), snapshot


def test_weights_that_methods_share_are_said_to_keep_the_emulator_from_running(
    ways: dict[str, Recording],
) -> None:
    assert ways["methods"].manifest.notes == ()
    assert ways["shared"].manifest.notes == (
        "methods share weights, which the HTP emulator cannot execute: there is no rung htp",
    )


def test_partition_that_does_not_compile_is_a_recording_of_what_came_before(
    ways: dict[str, Recording], command: Command
) -> None:
    recording = ways["refused"]
    assert not recording.manifest.complete
    assert recording.manifest.failure is not None
    assert recording.passes[-1].stage == "preprocess"
    (graph,) = recording.qnn
    assert [op.type for op in graph.ops] == ["Reshape"]
    assert command("show", str(recording.folder)).returncode == 0


def test_partition_that_does_not_compile_is_not_said_to_be_none(ways: dict[str, Recording]) -> None:
    failure = ways["refused"].manifest.failure
    assert failure is not None
    assert "nothing was delegated" not in failure.error


ODD = ("odd_outputs", "half", "nested", "state")


@pytest.mark.parametrize("name", ODD)
def test_cpu_rungs_of_odd_models_are_the_module(name: str, recorded: Recorded) -> None:
    recording = recorded(name, "fp16")
    module, inputs = getattr(importlib.import_module("tests.emulator.nets"), name)()
    leaves, whole = torch.utils._pytree.tree_flatten(inputs)
    given = torch.utils._pytree.tree_unflatten([leaf.contiguous() for leaf in leaves], whole)
    outputs = torch.utils._pytree.tree_leaves(module.eval()(*given))
    expected = [output.detach() if isinstance(output, torch.Tensor) else None for output in outputs]
    for runner in CPU:
        for ref, right in zip(recording.runs[runner].results, expected, strict=True):
            assert (ref is None) == (right is None)
            if ref is not None and right is not None:
                assert ref.dtype == str(right.dtype).removeprefix("torch.")
                assert torch.equal(tensor_from(recording, ref), right)


@pytest.mark.parametrize(
    "name", ODD[:3]
)  # a state has no start value in the program, so that it is left over
def test_htp_rungs_of_odd_models_are_close_to_it(name: str, recorded: Recorded) -> None:
    recording = recorded(name, "fp16")
    for runner in {"htp-tapped", "htp"} & recording.runs.keys():
        for ref, right in zip(recording.runs[runner].results, recording.runs["eager"].results, strict=True):
            assert (ref is None) == (right is None)
            if ref is not None and right is not None:
                assert ref.shape == right.shape
                value, expected = (tensor_from(recording, one) for one in (ref, right))
                assert (value - expected).norm() < 2e-3 * expected.norm()


def test_outputs_that_are_no_tensors_and_outputs_that_are_inputs(recorded: Recorded) -> None:
    recording = recorded("odd_outputs", "fp16")
    (method,) = recording.manifest.methods
    assert [port and port.dtype for port in method.outputs] == [
        *("float32", None, "float32", "float32", None, "float32"),
    ]
    refs = recording.runs["htp"].results
    assert refs[0] == refs[2]
    assert refs[3] == recording.manifest.inputs[0].tensor
    comparison = recording.comparison()
    assert comparison is not None
    assert {rung.output for rung in comparison.ladder} == {0, 2, 3, 5}
    assert (comparison.coverage.share, comparison.verdict.kind) == (1.0, "clean")


def test_state_is_read_and_written(recorded: Recorded) -> None:
    recording = recorded("state", "fp16")
    graph = recording.last_graph("transform")
    assert graph is not None
    (state,) = (node for node in graph.nodes if node.role == "state")
    assert state.constant is not None
    assert recording.tensor(state.constant).tolist() == [[0.5] * 4]
    assert [(output.role, output.target) for output in graph.outputs] == [
        ("mutation", state.name),
        ("output", ""),
    ]
    assert share(recording) == 1.0
    (note,) = recording.manifest.notes
    assert note.startswith("the HTP starts the state b_hidden of forward from memory that nothing sets")
    stored = (recording.folder / "programs/htp.pte").read_bytes()
    assert torch.full((4,), 0.5).numpy().tobytes() not in stored  # nor in half floats
    assert torch.full((4,), 0.5).half().numpy().tobytes() not in stored


def test_half_floats_at_the_border_cannot_be_dumped_and_the_rest_is_there(recorded: Recorded) -> None:
    recording = recorded("half", "fp16")
    assert [given.tensor.dtype for given in recording.manifest.inputs] == ["float16"]
    assert "htp-tapped" not in recording.runs
    (note,) = recording.manifest.notes
    assert note.endswith("give the model float32 inputs and outputs")
    comparison = recording.comparison()
    assert comparison is not None
    assert comparison.coverage.reasons == {"intermediates were not dumped": 2}
    assert [rung.name for rung in comparison.ladder] == [*CPU, "htp"]


def test_module_in_training_mode_is_recorded_in_eval_mode_with_a_note(recorded: Recorded) -> None:
    recording = recorded("nested", "fp16")
    assert recording.manifest.notes == ("the module was in training mode; it was recorded in eval mode",)
    notes = [given.note for given in recording.manifest.inputs]
    assert ["channels_last" in notes[0], notes[1], "strides (48, 16, 1, 4)" in notes[2]] == [True, "", True]


@pytest.mark.parametrize(
    ("factory", "fact"),
    [
        (
            "raising",
            "the pass FixedLinearKeepDim of the stage transform failed: RuntimeError: seeded fault",
        ),
        ("killed", "the worker process was killed by SIGKILL in step 'lower'"),
    ],
)
def test_factory_whose_lowering_ends_early_leaves_what_there_was(
    factory: str, fact: str, command: Command, tmp_path: Path
) -> None:
    done = command("record", f"{SCRIPTS / 'faulty.py'}:{factory}", "-q", "-o", "a")
    assert done.returncode == 4
    assert f"qnndbg: error: {fact}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.qnndbg"]
    assert command("show", "a.qnndbg").returncode == 0
    recording = open_recording(tmp_path / "a.qnndbg")
    good = [event for event in recording.passes if not event.error]
    assert (good[-1].stage, good[-1].name) == ("transform", "ExpandBroadcastTensorShape")
    assert recording.graph(good[-1].after).nodes
    assert [event.name for event in recording.passes if event.error] == (
        ["FixedLinearKeepDim"] if factory == "raising" else []
    )
    assert "eager" in recording.runs
