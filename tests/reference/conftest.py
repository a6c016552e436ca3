"""Stores snapshots and reads them back, so that every test goes through the recording's format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch.export import ExportedProgram

from qnndbg.capture.provenance import Lineage
from qnndbg.capture.snapshot import Weights, graph_from_module, graph_from_program
from qnndbg.capture.tensors import tensor_from_array
from qnndbg.execute.reference import Meaning, Walk, evaluate
from qnndbg.execute.sdk import find_sdk
from qnndbg.model.graph import Graph, TensorRef
from qnndbg.model.recording import Environment, Manifest
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer


class Store:
    """A recording on disk, to put snapshots into and to evaluate them from."""

    def __init__(self, folder: Path) -> None:
        self.writer = Writer(folder)
        environment = Environment(qnndbg="0", python="3", host="here")
        self.writer.manifest(
            Manifest(target="t", precision="fp16", soc="SM8650", environment=environment, complete=True)
        )
        self.weights = Weights(self.writer)

    @property
    def recording(self) -> Recording:
        """As it is on disk now."""
        return open_recording(self.writer.folder)

    def load(self, ref: TensorRef) -> torch.Tensor:
        """A stored tensor."""
        return tensor_from_array(self.recording.tensor(ref), ref.dtype)

    def snapshot(self, graph: ExportedProgram | torch.fx.GraphModule) -> Graph:
        """A snapshot that was written and read again."""
        if isinstance(graph, ExportedProgram):
            taken = graph_from_program(graph, self.weights, Lineage())
        else:
            taken = graph_from_module(graph, self.weights, Lineage())
        read = self.recording.graph(self.writer.graph(taken))
        assert read == taken
        return read

    def evaluate(self, graph: Graph, inputs: Sequence[torch.Tensor], meaning: Meaning = "quantised") -> Walk:
        """Evaluate on copies of the inputs."""
        with torch.no_grad():
            return evaluate(graph, [x.clone() for x in inputs], self.load, meaning=meaning)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty recording."""
    return Store(tmp_path / "t.qnndbg")


@pytest.fixture
def sdk_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name an SDK, since ExecuTorch's quantiser would download one otherwise."""
    monkeypatch.setenv("QNN_SDK_ROOT", str(find_sdk().root))
    # On AMD's processors the quantiser turns this off for good, which changes the last bit of a convolution.
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", torch.backends.mkldnn.enabled)
