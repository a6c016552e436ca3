"""Constants as the HTP holds them: what half floats and the builders of QNN make of a weight is its error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qnndbg.model.recording import Held
from qnndbg.model.result import Comparison, Counted, LayerResult
from qnndbg.recording.store import Recording
from tests.emulator import held_nets
from tests.emulator.conftest import Recorded

SMALLEST = 2.0**-24
"""The spacing of half floats below the smallest normal one, by IEEE 754."""
LARGEST = 131008.0
"""Measured: the HTP's half floats have numbers where IEEE 754 has infinity, and saturate there."""


def compared(recording: Recording) -> Comparison:
    comparison = recording.comparison()
    assert comparison is not None
    return comparison


def constant(recording: Recording, name: str) -> LayerResult:
    (found,) = (x for x in compared(recording).layers if x.given == "constant" and x.tensor == name)
    return found


def weights(net: str) -> dict[str, np.ndarray]:
    module = getattr(held_nets, net)()[0]
    return {name: weight.detach().numpy() for name, weight in module.named_parameters()}


def sqnr(right: np.ndarray, wrong: np.ndarray) -> float:
    error = np.linalg.norm(wrong.astype(np.float64) - right.astype(np.float64))
    return float(20 * math.log10(np.linalg.norm(right.astype(np.float64)) / error))


def test_weight_beyond_half_floats_saturates(recorded: Recorded) -> None:
    recording, weight = (
        recorded(f"{held_nets.__file__}:weighted", "fp16"),
        weights("weighted")["large.weight"],
    )
    layer = constant(recording, "p_large_weight@0")
    assert layer.local is not None
    assert layer.local.max_abs == 200_000.0 - LARGEST
    held = weight.copy()
    held[0, 0] = LARGEST  # of the others half floats leave 70 dB
    assert layer.local.sqnr_db == pytest.approx(sqnr(weight, held), abs=0.01)
    assert layer.module == "large"
    assert layer.effect == pytest.approx(1.0, abs=0.01)
    verdict = compared(recording).verdict
    assert (verdict.kind, verdict.culprit) == ("format", "large.weight")


def test_weight_that_half_floats_flush(recorded: Recorded) -> None:
    recording, weight = (
        recorded(f"{held_nets.__file__}:weighted", "fp16"),
        weights("weighted")["small.weight"],
    )
    layer = constant(recording, "p_small_weight@0")
    assert layer.local is not None
    held = np.round(weight.astype(np.float64) / SMALLEST) * SMALLEST
    assert layer.local.sqnr_db == pytest.approx(sqnr(weight, held), abs=0.01)
    assert layer.local.max_abs == pytest.approx(np.abs(weight - held).max(), rel=1e-6)


def test_what_the_graph_has_is_counted_apart(recorded: Recorded) -> None:
    coverage = compared(recorded(f"{held_nets.__file__}:weighted", "fp16")).coverage
    # Two weights and the two numbers that the input is multiplied by.
    assert coverage.constants.total == 4
    assert coverage.constants.same >= 2
    assert coverage.inputs == Counted(same=1, total=1)
    assert coverage.given == {}


def rounded_scales(weight: np.ndarray, bits: int = 4) -> np.ndarray:
    """Scales of blocks of 32 input channels as blockwise expansion takes them: sixteenths of the largest."""
    peaks = np.abs(weight.reshape(8, 2, 32)).max(axis=2)
    steps = peaks.max(axis=1, keepdims=True) / 2**bits
    factors: np.ndarray = np.clip(np.round(peaks / steps), 1, 2**bits) * steps / peaks
    return factors


def test_scales_of_blocks_are_rounded_by_the_builder(recorded: Recorded) -> None:
    recording = recorded(f"{held_nets.__file__}:blocks", "16a4w_block")
    (layer,) = (x for x in compared(recording).layers if x.given == "constant" and len(x.shape) == 4)
    assert layer.local is not None
    off = rounded_scales(weights("blocks")["conv.weight"])
    # Each block is off by one factor, so that of the weight as quantised is the error of the whole.
    (graph,) = recording.qnn
    (node,) = (n for n in recording.graph(graph.graph).nodes if n.tensors[:1] == (layer.tensor,))
    assert node.encoding is not None
    assert node.constant is not None
    real = recording.tensor(node.constant).reshape(8, 2, 32).astype(np.float64)
    real *= np.asarray(node.encoding.scales).reshape(8, 2, 1)
    assert layer.local.sqnr_db == pytest.approx(sqnr(real, real * off[..., None]), abs=0.1)


def test_they_are_the_culprit_and_the_op_is_none(recorded: Recorded) -> None:
    comparison = compared(recorded(f"{held_nets.__file__}:blocks", "16a4w_block"))
    (layer,) = (x for x in comparison.layers if x.given == "constant" and len(x.shape) == 4)
    (op,) = (x for x in comparison.layers if x.op == "aten.convolution.default")
    assert layer.effect == pytest.approx(1.0, abs=0.05)
    assert op.excess is not None
    assert op.excess < 3
    (source,) = (s for s in comparison.sources if s.step == "backend" and abs(s.share) > 0.5)
    assert (source.kind, source.name, source.cause) == ("constant", "b__frozen_param0", "builder")


def test_what_is_held_as_it_is_takes_no_room(recorded: Recorded) -> None:
    recording = recorded(f"{held_nets.__file__}:blocks", "16a4w_block")
    static = {t.name: t.held for graph in recording.qnn for t in graph.tensors if t.kind == "static"}
    other = [name for name, held in static.items() if held != Held()]
    assert len(static) == 2
    assert [value.name for value in recording.runs["held"].values] == other
    assert len(other) == 1


def test_a_batch_norm_is_not_held_against_the_statistics_that_are_folded_into_it(recorded: Recorded) -> None:
    comparison = compared(recorded(f"{held_nets.__file__}:normed", "fp16"))
    assert comparison.coverage.constants == Counted(same=2, total=4)
    reasons = [layer.reason for layer in comparison.layers if layer.given == "constant" and layer.reason]
    assert reasons == ["its builder folds the running statistics into it"] * 2
    assert comparison.verdict.kind == "clean"
    (norm,) = (layer for layer in comparison.layers if "batch_norm" in layer.op)
    assert norm.excess is not None
    assert norm.excess < 3.0
    assert not [f for f in comparison.findings if f.severity != "note" or f.rule in {"QD114", "QD110"}]
    backend = [s for s in comparison.sources if s.step == "backend"]
    assert {s.cause for s in backend} <= {"rounding", "precision"}
    assert all(s.explained == pytest.approx(1.0, abs=0.05) for s in backend)
