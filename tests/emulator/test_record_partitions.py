"""A model of which a part stays on the CPU: two partitions whose QNN tensors have the same names."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qnndbg.recording.store import Recording
from tests.emulator import nets
from tests.emulator.conftest import Recorded


@pytest.fixture
def quantised(recorded: Recorded) -> Recording:
    return recorded("fallback", "8a8w")


@pytest.fixture(params=["8a8w", "fp16"])
def recording(request: pytest.FixtureRequest, recorded: Recorded) -> Recording:
    return recorded("fallback", request.param)


def test_the_permute_of_rank_6_stays_between_two_partitions(recording: Recording) -> None:
    assert [graph.partition for graph in recording.qnn] == [0, 1]
    outer = recording.last_graph("partition")
    assert outer is not None
    assert sorted(outer.partitions.values()) == [0, 1]
    kept = [node.target for node in outer.nodes if node.target.startswith("aten.")]
    assert "aten.permute_copy.default" in kept
    assert not {"aten.linear.default", "aten.relu.default"} & set(kept)


def test_every_tensor_of_both_is_compared(recording: Recording) -> None:
    comparison = recording.comparison()
    assert comparison is not None
    assert (comparison.coverage.share, comparison.coverage.reasons) == (1.0, {})
    assert {layer.partition: layer.module for layer in comparison.layers if layer.module} == {
        0: "first",
        1: "last",
    }


def test_each_is_paired_with_its_own(quantised: Recording) -> None:
    names = [{tensor.name for tensor in graph.tensors} for graph in quantised.qnn]
    assert names[0] & names[1]  # a bare name does not tell them apart
    comparison = quantised.comparison()
    assert comparison is not None
    for layer in comparison.layers:
        for error in (layer.local,) if layer.given else (layer.accumulated, layer.local):
            assert layer.reason or (error is not None and (error.max_lsb or 0) <= 1.01)


def test_the_second_begins_where_the_first_ended(quantised: Recording) -> None:
    """Both ends were dumped on the HTP; the permute between them is done here."""
    taps = {(v.partition, v.name): quantised.tensor(v.tensor) for v in quantised.runs["htp-tapped"].values}
    ops = [graph.ops for graph in quantised.qnn]
    left = taps[0, ops[0][-1].outputs[0]]
    (tensor,) = (t for t in quantised.qnn[1].tensors if t.name == ops[1][0].outputs[0])
    assert tensor.encoding is not None
    moved = left.astype(np.float64).reshape(1, 2, 2, 2, 2, 1).transpose(0, 3, 1, 4, 2, 5).reshape(1, 16)
    steps = np.rint(moved / tensor.encoding.scales[0]) + tensor.encoding.zero_points[0]
    assert np.array_equal(taps[1, tensor.name], np.clip(steps, 0, 255))


def test_what_the_cpu_leaves_unrounded_is_no_fault(recorded: Recorded) -> None:
    """The sum is not delegated, and its q/dq ops were folded into an encoding that the CPU does not know."""
    recording = recorded("counted", "8a8w")
    (local,), (htp,), (reference,) = (
        recording.runs[name].results for name in ("local", "htp-tapped", "reference")
    )
    assert local is not None
    assert htp is not None
    assert reference is not None
    assert np.array_equal(recording.tensor(local), recording.tensor(htp))
    assert not np.allclose(recording.tensor(reference), recording.tensor(htp), rtol=0, atol=1e-4)
    comparison = recording.comparison()
    assert comparison is not None
    assert comparison.verdict.kind == "clean"
    shares = {source.op: source.share for source in comparison.sources if source.step == "backend"}
    assert shares["aten.add.Tensor"] > 0.5
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.05)


def test_the_whole_is_the_model(recording: Recording) -> None:
    module, inputs = nets.fallback()
    expected = module(*inputs).detach()
    (eager,), (htp,) = (recording.runs[name].results for name in ("eager", "htp"))
    assert eager is not None
    assert htp is not None
    assert torch.equal(torch.tensor(recording.tensor(eager)), expected)
    error = torch.tensor(recording.tensor(htp)) - expected
    assert error.norm() < 0.02 * expected.norm()
