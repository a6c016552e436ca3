"""The local error names the op that the HTP computes otherwise; the accumulated error does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qnndbg.analyze.verdict import sources
from qnndbg.model.result import LayerResult
from qnndbg.recording.store import Recording
from tests.emulator.conftest import ROOT, Recorded

MIXED = ROOT / "examples/mixed.py"
LOUD = "gelu"
WHERE = {
    "aten_convolution_default@0": ("stem", "self.stem("),
    "aten_hardswish_default@0": ("", "hardswish("),
    "aten_convolution_default_1@0": ("mix", "self.mix("),
    "aten_hardtanh_default@0": ("", "relu6("),
    "aten_add_tensor@0": ("", ") + x"),
    "aten_mean_dim@0": ("", ".mean("),
    "aten_gelu_default@0": ("", "gelu("),
    "aten_native_layer_norm_default@0": ("norm", "self.norm("),
    "aten_linear_default@0": ("head", "self.head("),
}
"""QNN tensor to its module, and to what its source line must hold."""
STAGES = (
    *("annotation", "quantized", "export", "edge", "transform", "partition", "preprocess", "executorch"),
)


@pytest.fixture
def recording(recorded: Recorded) -> Recording:
    return recorded(f"{MIXED}:mixed", "16a8w")


@pytest.fixture
def layers(recording: Recording) -> tuple[LayerResult, ...]:
    """Those that an op computes and that were compared."""
    comparison = recording.comparison()
    assert comparison is not None
    return tuple(layer for layer in comparison.layers if not layer.reason and not layer.given)


def kind(layer: LayerResult) -> str:
    """``gelu`` of ``aten.gelu.default``."""
    return layer.op.split(".")[1]


def largest(layers: tuple[LayerResult, ...], side: str) -> dict[str, float]:
    """The largest error in steps by kind of op."""
    found: dict[str, float] = {}
    for layer in layers:
        steps = getattr(layer, side).max_lsb
        assert steps is not None
        found[kind(layer)] = max(found.get(kind(layer), 0.0), steps)
    return found


def test_every_tensor_is_compared(recording: Recording, layers: tuple[LayerResult, ...]) -> None:
    comparison = recording.comparison()
    assert comparison is not None
    assert (comparison.coverage.share, comparison.coverage.reasons) == (1.0, {})
    assert all(layer.accumulated and layer.local for layer in layers)
    assert {layer.tensor for layer in layers if layer.source} == WHERE.keys()


def test_local_error_singles_out_gelu(layers: tuple[LayerResult, ...]) -> None:
    local = largest(layers, "local")
    others = max(steps for op, steps in local.items() if op != LOUD)
    assert others < 2.5
    assert local[LOUD] > 10 * others
    assert [kind(layer) for layer in sources(layers)] == [LOUD]


def test_accumulated_error_does_not(layers: tuple[LayerResult, ...]) -> None:
    steps = largest(layers, "accumulated")
    assert sum(n > steps[LOUD] / 2 for op, n in steps.items() if op != LOUD) >= 5


@dataclass(frozen=True)
class Activation:
    """An activation as a formula has it from what the HTP dumped in front of it, in steps."""

    layer: LayerResult
    read: NDArray[np.int64]
    off: NDArray[np.float64]


def evaluated(
    recording: Recording,
    layers: tuple[LayerResult, ...],
    op: str,
    formula: Callable[[NDArray[Any]], NDArray[Any]],
) -> Activation:
    (layer,) = (layer for layer in layers if kind(layer) == op)
    (graph,) = recording.qnn
    (maker,) = (o for o in graph.ops if o.outputs == (layer.tensor,))
    encodings = {tensor.name: tensor.encoding for tensor in graph.tensors}
    taps = {value.name: recording.tensor(value.tensor) for value in recording.runs["htp-tapped"].values}
    source, result = encodings[maker.inputs[0]], encodings[layer.tensor]
    assert source is not None
    assert result is not None
    read = taps[maker.inputs[0]].astype(np.int64)
    x = (read - source.zero_points[0]) * source.scales[0]
    expected = np.clip(np.rint(formula(x) / result.scales[0]) + result.zero_points[0], 0, 65535)
    return Activation(layer, read, np.abs(taps[layer.tensor] - expected))


def test_local_error_of_gelu_is_that_of_the_formula(
    recording: Recording, layers: tuple[LayerResult, ...]
) -> None:
    erf = np.vectorize(math.erf)
    gelu = evaluated(recording, layers, "gelu", lambda x: 0.5 * x * (1.0 + erf(x / math.sqrt(2.0))))
    assert gelu.layer.local is not None
    assert gelu.layer.local.max_lsb == pytest.approx(gelu.off.max(), abs=1)


def test_hardswish_is_off_only_where_what_it_read_was_not_clipped(
    recording: Recording, layers: tuple[LayerResult, ...]
) -> None:
    found = evaluated(recording, layers, "hardswish", lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)
    clipped = (found.read == 0) | (found.read == 65535)
    assert clipped.any()
    assert found.off[clipped].max() > 1000
    assert found.off[~clipped].max() < 2.5
    assert found.layer.local is not None
    assert found.layer.local.max_lsb is not None
    assert found.layer.local.max_lsb < 2.5
    (stem,) = (layer for layer in layers if layer.module == "stem")
    assert [layer.tensor for layer in layers if layer.fused] == [stem.tensor]


def test_layers_lead_to_modules_and_source_lines(layers: tuple[LayerResult, ...]) -> None:
    lines = MIXED.read_text(encoding="utf-8").splitlines()
    for layer in layers:
        if layer.tensor in WHERE:
            module, text = WHERE[layer.tensor]
            file, _, line = layer.source.partition(":")
            assert (layer.module, layer.created_by, Path(file).name) == (module, "", MIXED.name)
            assert text in lines[int(line) - 1]
    # What no line of the model asked for is put down to the pass that invented it.
    invented = {kind(layer): layer.created_by for layer in layers if not layer.source}
    assert invented == {
        "quantize_per_tensor": "InsertIOQDQ",
        "dequantize_per_tensor": "InsertIOQDQ",
        "permute_copy": "LayoutTransform",
    }


def test_encodings_and_dtypes_of_both_sides_agree(layers: tuple[LayerResult, ...]) -> None:
    encoded = [layer for layer in layers if layer.encoding]
    assert len(encoded) >= 8
    for layer in encoded:
        assert layer.dtype == "UFIXED_POINT_16"
        assert layer.encoding is not None
        assert layer.reference_encoding is not None
        assert layer.encoding.scales == pytest.approx(layer.reference_encoding.scales)
        assert layer.encoding.zero_points == layer.reference_encoding.zero_points


def test_the_cpu_rungs_are_bit_equal(recording: Recording) -> None:
    results = {name: run.results for name, run in recording.runs.items()}
    cpu = ("quantized", "export", "edge", "transform", "reference")
    assert len({results[runner] for runner in cpu}) == 1  # by digest
    assert results["quantized"] != results["eager"]
    comparison = recording.comparison()
    assert comparison is not None
    names = [rung.name for rung in comparison.ladder]
    assert names == ["eager", "annotation", *cpu, "htp-tapped", "htp"]


def test_every_stage_and_pass_is_an_event(recording: Recording) -> None:
    stages = [event.stage for event in recording.passes]
    assert tuple(dict.fromkeys(stages)) == STAGES
    assert [event.index for event in recording.passes] == list(range(len(stages)))
    assert min(stages.count(stage) for stage in ("annotation", "export", "transform", "preprocess")) > 5
    # Most passes say that they changed the graph; few did.
    runs = [event for event in recording.passes if event.name]
    assert sum(e.changed for e in runs) < 20 < sum(e.claimed_modified is True for e in runs)
