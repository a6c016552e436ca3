"""The ladder of each layer, held against forward hooks in the module and the ladder of the outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import qnndbg
from qnndbg.analyze.timeline import timeline
from qnndbg.model.layer_ladder import LayerLadder
from qnndbg.model.recording import RunnerName
from qnndbg.recording.store import Recording
from tests.emulator.conftest import ROOT, Recorded

MIXED = f"{ROOT / 'examples' / 'mixed.py'}:mixed"


def ladder_of(recording: Recording) -> LayerLadder:
    ladder = recording.layer_ladder()
    assert ladder is not None
    return ladder


def at(ladder: LayerLadder, tensor: str, rung: RunnerName) -> tuple[float | None, float | None]:
    (layer,) = (layer for layer in ladder.layers if layer.tensor == tensor)
    number = ladder.rungs.index(rung)
    return layer.against_eager[number], layer.against_previous[number]


def sqnr(reference: np.ndarray, target: np.ndarray) -> float:
    error = target.astype(np.float64) - reference
    return 10 * math.log10((reference.astype(np.float64) ** 2).sum() / (error**2).sum())


def dumped(recording: Recording, tensor: str) -> np.ndarray:
    """What the HTP dumped, dequantised by hand."""
    run = recording.run("htp-tapped")
    assert run is not None
    (value,) = (value for value in run.values if value.name == tensor)
    (found,) = (t for graph in recording.qnn for t in graph.tensors if t.name == tensor)
    array = recording.tensor(value.tensor)
    if found.encoding is None:
        return array.astype(np.float64)
    return (array.astype(np.float64) - found.encoding.zero_points[0]) * found.encoding.scales[0]


@pytest.mark.parametrize("precision", ["16a8w", "fp16"])
def test_layers_are_held_against_what_the_module_computes(recorded: Recorded, precision: str) -> None:
    from examples.mixed import mixed

    recording = recorded(MIXED, precision)
    module, inputs, _ = mixed()
    seen: dict[str, np.ndarray] = {}
    for name, part in module.named_modules():
        part.register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out.numpy()}))
    with torch.no_grad():
        module(*inputs)
    ladder = ladder_of(recording)
    for name, tensor in (
        ("stem", "aten_convolution_default@0"),
        ("norm", "aten_native_layer_norm_default@0"),
    ):
        array = dumped(recording, tensor)
        if array.ndim == 4:  # channels are stored last
            array = array.transpose(0, 3, 1, 2)
        expected = sqnr(seen[name], array.reshape(seen[name].shape))
        assert at(ladder, tensor, "htp-tapped")[0] == pytest.approx(expected, abs=0.05)


def test_last_layer_climbs_as_the_output_does(recorded: Recorded) -> None:
    recording = recorded(MIXED, "16a8w")
    comparison = recording.comparison()
    assert comparison is not None
    ladder = ladder_of(recording)
    for rung in comparison.ladder:
        if rung.name in {"annotation", "htp"} or rung.against_eager is None:
            continue  # the layers' eager is a graph, and rounds unlike the module; htp has no layers
        number = ladder.rungs.index(rung.name)
        (layer,) = (layer for layer in ladder.layers if layer.tensor == "aten_linear_default@0")
        assert layer.against_eager[number] == pytest.approx(rung.against_eager.sqnr_db, abs=0.01)
        if rung.against_previous is not None:
            assert layer.against_previous[number] == pytest.approx(rung.against_previous.sqnr_db, abs=0.01)


def test_rungs_that_must_agree_do_in_every_layer(recorded: Recorded) -> None:
    for target, precision in ((MIXED, "16a8w"), ("example:silero", "8a8w"), ("split", "8a8w")):
        ladder = ladder_of(recorded(target, precision))
        for rung in ("annotation", "export", "edge", "transform", "reference"):
            errors = [layer.against_previous[ladder.rungs.index(rung)] for layer in ladder.layers]
            assert {error for error in errors if error is not None} <= {200.0}, (target, rung)


def test_convolution_over_one_axis_is_followed_through_its_other_layouts(recorded: Recorded) -> None:
    ladder = ladder_of(recorded("example:silero", "8a8w"))
    for tensor in ("aten_convolution_default@0", "aten_squeeze_copy_dims@0"):
        (layer,) = (layer for layer in ladder.layers if layer.tensor == tensor)
        assert None not in layer.against_eager


def test_layers_that_a_pass_invented_begin_there(recorded: Recorded) -> None:
    ladder = ladder_of(recorded(MIXED, "16a8w"))
    assert at(ladder, "aten_permute_copy_default_1@0", "transform") == (None, None)
    eager, previous = at(ladder, "aten_permute_copy_default_1@0", "htp-tapped")
    assert eager is None
    assert previous is not None


def test_timeline_says_where_the_numbers_move(recorded: Recorded) -> None:
    recording = recorded(MIXED, "16a8w")
    steps = {step.stage: step for step in timeline(recording, "forward", 0, "aten_hardswish_default@0")}
    moved = [stage for stage, step in steps.items() if step.worsens]
    assert moved == ["quantized", "qnn"]
    assert (
        steps["preprocess"].against_eager
        == at(ladder_of(recording), "aten_hardswish_default@0", "reference")[0]
    )


def test_values_as_a_table_are_those_that_were_dumped(recorded: Recorded) -> None:
    recording = recorded(MIXED, "16a8w")
    found = qnndbg.open(recording.folder).values("aten_convolution_default@0")
    expected = dumped(recording, "aten_convolution_default@0")
    assert found.loc[(0, 5, 14, 1), "htp"] == pytest.approx(expected[0, 5, 14, 1])
    assert list(found.columns) == ["reference", "local", "htp"]
    assert len(found) == expected.size
