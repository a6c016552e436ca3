"""Executes any recorded snapshot again, from the recording alone.

The results are always those of the whole program, so that those of any two snapshots of a method can be
compared: a snapshot of one partition runs within the partitioned program, the other partitions in their
last form. It writes nothing, and says of no difference whose fault it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from qnndbg.errors import RecordingError
from qnndbg.execute.reference import Meaning, Walk, evaluate, taken
from qnndbg.model.graph import Graph
from qnndbg.model.recording import Stage
from qnndbg.pipeline.stored import tensor_from
from qnndbg.recording.store import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A graph at the point of the lowering where it first appeared."""

    digest: str
    stage: Stage
    made_by: str
    """The pass that left it; empty for what a stage began with."""
    method: str
    partition: int | None
    event: int
    """Index of the pass event."""


def list_snapshots(recording: Recording, method: str = "forward") -> tuple[Snapshot, ...]:
    """The distinct snapshots of each stage and partition of a method, in order.

    The first of a stage often has the digest of the last one of the stage before.
    """
    found: dict[tuple[Stage, int | None, str], Snapshot] = {}
    for event in recording.passes:
        if event.method == method and event.after:
            snapshot = Snapshot(
                digest=event.after,
                stage=event.stage,
                made_by=event.name,
                method=method,
                partition=event.partition,
                event=event.index,
            )
            found.setdefault((event.stage, event.partition, event.after), snapshot)
    return tuple(found.values())


def meaning_of(stage: Stage) -> Meaning:
    """The meaning of a stage's graphs on the way to the HTP: those of annotation are not rounded yet."""
    return "float" if stage == "annotation" else "quantised"


def run_snapshot(
    recording: Recording, snapshot: Snapshot, *, sample: int = 0, meaning: Meaning = "quantised"
) -> Walk:
    """Run a snapshot on the CPU with a recorded sample.

    Args:
        recording: complete or not.
        snapshot: one of its own.
        sample: of the snapshot's method.
        meaning: with or without the rounding of quantisation.

    Returns:
        Results and state of the program; what could not be evaluated, in any partition, is in ``problems``.
        The values are those of the snapshot's own nodes.

    Raises:
        RecordingError: a part is missing or damaged, or the graph takes other inputs than were recorded.
    """
    graph = recording.graph(snapshot.digest)
    inner: dict[int, Graph] = {q.partition: recording.graph(q.graph) for q in _qnn(recording, snapshot)}
    outer = graph
    if snapshot.partition is not None:
        inner[snapshot.partition] = graph
        outer = _partitioned(recording, snapshot.method)
    walks: dict[int, Walk] = {}

    def call_partition(number: int, args: Sequence[Any]) -> Sequence[Any]:
        walks[number] = evaluate(inner[number], args, load, meaning=meaning)
        return walks[number].results

    def load(ref: Any) -> torch.Tensor:
        return tensor_from(recording, ref)

    with torch.no_grad():
        whole = evaluate(
            outer,
            _inputs(recording, outer, snapshot, sample),
            load,
            meaning=meaning,
            call_partition=call_partition,
        )
    for walk in walks.values():
        whole.problems.update(walk.problems)
    if snapshot.partition is not None and snapshot.partition in walks:
        whole.values = walks[snapshot.partition].values
    return whole


def _qnn(recording: Recording, snapshot: Snapshot) -> Sequence[Any]:
    if snapshot.stage not in {"partition", "preprocess", "executorch"}:
        return ()
    return [graph for graph in recording.qnn if graph.method == snapshot.method]


def _partitioned(recording: Recording, method: str) -> Graph:
    outer = recording.last_graph("partition", method)
    if outer is None:
        raise RecordingError(
            f"the recording has no partitioned program of the method {method}",
            "its lowering failed before one was made; qnndbg show says where",
        )
    return outer


def _inputs(recording: Recording, graph: Graph, snapshot: Snapshot, sample: int) -> list[torch.Tensor]:
    inputs = recording.inputs(snapshot.method, sample)
    takes = len(taken(graph, len(inputs)))
    if takes != len(inputs):
        where = f"sample {sample} of the method {snapshot.method}"
        raise RecordingError(
            f"the snapshot {snapshot.digest} takes {takes} inputs, and {where} has {len(inputs)}",
            "give the method that the graph belongs to",
        )
    return [tensor_from(recording, item.tensor) for item in inputs]
