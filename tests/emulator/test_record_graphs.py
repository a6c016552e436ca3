"""What a recording holds of the graphs can be executed again, and gives what was lowered bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch

from qnndbg.execute.reference import evaluate
from qnndbg.model.graph import Graph
from qnndbg.model.recording import Stage
from qnndbg.pipeline.refer import tensor_from
from qnndbg.recording.store import Recording
from tests.emulator.conftest import ROOT, Recorded

MIXED = f"{ROOT}/examples/mixed.py:mixed"
TARGETS = [(MIXED, "16a8w"), ("fallback", "8a8w"), ("topk", "8a8w"), ("embedding", "fp16")]
QUANTISED: tuple[Stage, ...] = ("quantized", "export", "edge", "transform")
"""The stages whose every snapshot is the whole model, quantised."""


@pytest.fixture(params=TARGETS, ids=lambda target: "-".join(target).rpartition(":")[2])
def recording(request: pytest.FixtureRequest, recorded: Recorded) -> Recording:
    return recorded(*request.param)


def snapshots(recording: Recording, stage: Stage, partition: int | None = None) -> dict[str, str]:
    """Digests of a stage's graphs in order, each with the pass that left it first."""
    found: dict[str, str] = {}
    for event in recording.passes:
        if (event.stage, event.partition) == (stage, partition) and event.after:
            found.setdefault(event.after, event.name or "begin")
    return found


def again(recording: Recording, graph: Graph, inputs: Sequence[Any] | None = None) -> list[Any]:
    if inputs is None:
        inputs = [tensor_from(recording, item.tensor) for item in recording.manifest.inputs]

    def delegate(number: int, args: Sequence[Any]) -> Sequence[Any]:
        return again(recording, recording.graph(recording.qnn[number].graph), args)

    with torch.no_grad():
        walk = evaluate(graph, inputs, lambda ref: tensor_from(recording, ref), call_partition=delegate)
    assert walk.problems == {}
    return walk.results


def check(recording: Recording, stages: Sequence[Stage], runner: str) -> None:
    """Every snapshot of these stages gives what a runner gave."""
    expected = [tensor_from(recording, ref) for ref in recording.runs[runner].results if ref is not None]
    for stage in stages:
        for digest, name in snapshots(recording, stage).items():
            results = again(recording, recording.graph(digest))
            where = f"{stage} after {name}"
            assert len(results) == len(expected), where
            assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True)), where


def test_every_snapshot_of_the_quantised_stages_is_the_quantised_module(recording: Recording) -> None:
    quantised = "quantized" in recording.runs
    check(recording, QUANTISED[0 if quantised else 1 :], "quantized" if quantised else "eager")


def test_every_snapshot_before_quantisation_is_the_eager_module(recording: Recording) -> None:
    check(recording, ("annotation",), "eager")


def test_the_partitioned_program_is_the_quantised_module(recording: Recording) -> None:
    check(recording, ("partition",), "quantized" if "quantized" in recording.runs else "eager")


def test_every_snapshot_of_the_emitted_program_is_the_quantised_module(recording: Recording) -> None:
    check(recording, ("executorch",), "quantized" if "quantized" in recording.runs else "eager")


def test_every_snapshot_of_a_partition_gives_the_same(recording: Recording) -> None:
    outer = recording.last_graph("partition")
    assert outer is not None
    given: dict[int, Sequence[Any]] = {}

    def delegate(number: int, args: Sequence[Any]) -> Sequence[Any]:
        given[number] = list(args)
        return again(recording, recording.graph(recording.qnn[number].graph), args)

    inputs = [tensor_from(recording, item.tensor) for item in recording.manifest.inputs]
    with torch.no_grad():
        evaluate(outer, inputs, lambda ref: tensor_from(recording, ref), call_partition=delegate)
    assert sorted(given) == [graph.partition for graph in recording.qnn]
    for graph in recording.qnn:
        expected = again(recording, recording.graph(graph.graph), given[graph.partition])
        digests = snapshots(recording, "preprocess", graph.partition)
        assert digests
        for digest, name in digests.items():
            results = again(recording, recording.graph(digest), given[graph.partition])
            assert len(results) == len(expected)
            same = [torch.equal(a, b) for a, b in zip(results, expected, strict=True)]
            assert all(same), f"partition {graph.partition} after {name}"


def test_each_stage_begins_with_what_the_one_before_left(recording: Recording) -> None:
    reached = [stage for stage in get_args(Stage) if snapshots(recording, stage)]
    assert reached[-4:] == ["edge", "transform", "partition", "executorch"]
    for event, before in zip(recording.passes[1:], recording.passes, strict=False):
        if event.before:
            assert (event.before, event.stage) == (before.after, before.stage)
        else:  # a stage, or its second half, begins with what no pass made
            assert event.name in {"", "convert_pt2e", "to_backend"}
        assert event.changed <= (event.before not in {"", event.after})


def test_no_state_of_a_run_leaks_into_the_next(recording: Recording) -> None:
    graph = recording.last_graph("transform")
    assert graph is not None
    once, twice = again(recording, graph), again(recording, graph)
    assert all(torch.equal(a, b) for a, b in zip(once, twice, strict=True))
