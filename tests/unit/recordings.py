"""Hand-made recordings: QNN tensors with the values that the runs have of them, one QNN op each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.model.graph import Graph, Node, QuantParams, TensorSpec
from qnndbg.model.recording import Environment, Manifest, QnnGraph, QnnOp, QnnTensor, Run, RunnerName, Value
from qnndbg.model.result import Comparison
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer

HALF = QuantParams(scales=(0.5,), zero_points=(10,), qmin=0, qmax=255, dtype="uint8")
F32 = TensorSpec((3,), "float32")


def manifest(precision: str = "fp16", **fields: Any) -> Manifest:
    """A front page with as little on it as there may be."""
    environment = Environment(qnndbg="0.1.0", python="3.11.9", host="Linux x86_64")
    page = Manifest(target="net.py:make", precision=precision, soc="SM8650", environment=environment)
    return replace(page, **fields)


def node(name: str, target: str = "aten.relu.default", **fields: Any) -> Node:
    """A call of one float output."""
    return replace(Node(name=name, op="call_function", target=target, outputs=(F32,)), **fields)


def real(*values: float) -> np.ndarray:
    """Values as the CPU has them."""
    return np.array(values, np.float32)


def raw(*values: int) -> np.ndarray:
    """Values as the HTP has them."""
    return np.array(values, np.uint8)


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A QNN tensor, and what the three runs have of it."""

    name: str
    made_by: Node | None = None
    output: int = 0
    op: str = "Relu"
    """Type of the QNN op that computes it; empty if none does."""
    dtype: str = "UFIXED_POINT_8"
    kind: str = "native"
    encoding: QuantParams | None = HALF
    htp: np.ndarray | None = None
    reference: np.ndarray | None = None
    local: np.ndarray | None = None
    floor: float | None = None
    """Of the local run."""

    def qnn(self) -> QnnTensor:
        """As a recording describes it."""
        return QnnTensor(
            name=self.name,
            kind=self.kind,  # type: ignore[arg-type]
            dtype=self.dtype,
            shape=(3,) if self.htp is None else self.htp.shape,
            encoding=self.encoding,
            node=self.made_by.name if self.made_by is not None else "",
            output=self.output,
        )


class Maker:
    """Makes a recording, partition by partition."""

    def __init__(self, folder: Path, precision: str = "8a8w") -> None:
        self.writer = Writer(folder)
        self.writer.manifest(manifest(precision))
        self.values: dict[str, dict[RunnerName, list[Value]]] = {}
        """Of each method."""

    def partition(
        self, number: int, tensors: Sequence[Tensor], extra: Sequence[Node] = (), method: str = "forward"
    ) -> None:
        """Add a partition of these tensors, in whose graph there may be more nodes."""
        made = {t.made_by.name: t.made_by for t in tensors if t.made_by is not None}
        ops = [
            QnnOp(name=t.name, type=t.op, package="qti.aisw", inputs=(), outputs=(t.name,))
            for t in tensors
            if t.op
        ]
        graph = self.writer.graph(Graph(nodes=(*made.values(), *extra), outputs=()))
        described = tuple(t.qnn() for t in tensors)
        self.writer.qnn_graph(
            QnnGraph(method=method, partition=number, graph=graph, ops=tuple(ops), tensors=described)
        )
        values = self.values.setdefault(method, {"reference": [], "local": [], "htp-tapped": []})
        for tensor in tensors:
            sides = (tensor.reference, tensor.local, tensor.htp)
            for (runner, side), array in zip(values.items(), sides, strict=True):
                if array is not None:
                    ref, floor = self.writer.tensor(array), tensor.floor if runner == "local" else None
                    side.append(Value(name=tensor.name, partition=number, tensor=ref, floor=floor))

    def compared(self, problems: dict[str, str] | None = None) -> Comparison:
        """Write the runs and compare them."""
        for method, runs in self.values.items():
            for runner, values in runs.items():
                run = Run(runner=runner, method=method, values=tuple(values), problems=problems or {})
                self.writer.run(run)
        return compare(open_recording(self.writer.folder))
