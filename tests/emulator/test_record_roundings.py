"""What the noise floor says of the HTP's arithmetic, held against the HTP."""

from __future__ import annotations

import math

import pytest

from qnndbg.model.result import LayerResult
from tests.emulator.conftest import Recorded

APART = math.sqrt(1 / 12 + 1 / 12)
"""RMS in steps of the difference of two roundings."""


def steps(recorded: Recorded, precision: str, tensor: str) -> tuple[float, float]:
    """The local error of a layer and its floor in steps, RMS."""
    comparison = recorded("coarse", precision).comparison()
    assert comparison is not None
    (layer,) = (layer for layer in comparison.layers if layer.tensor == tensor)
    step, floor, error = _numbers(layer)
    return error / step, floor / step


def _numbers(layer: LayerResult) -> tuple[float, float, float]:
    assert layer.encoding is not None
    assert layer.floor is not None
    assert layer.local is not None
    assert layer.local.rms_abs is not None
    return layer.encoding.scales[0], layer.floor, layer.local.rms_abs


def test_sum_of_16_bits_is_off_by_its_unit(recorded: Recorded) -> None:
    error, floor = steps(recorded, "16a8w", "aten_linear_default@0")
    assert error > 10 * APART
    assert 0.5 < error / floor < 1.2


def test_relu_that_is_fused_with_it_reads_it_unrounded(recorded: Recorded) -> None:
    error, floor = steps(recorded, "16a8w", "aten_relu_default@0")
    assert floor > APART
    assert error < 1.2 * floor


def test_sum_of_8_bits_is_off_by_its_rounding_only(recorded: Recorded) -> None:
    error, floor = steps(recorded, "8a8w", "aten_linear_default@0")
    assert floor == pytest.approx(APART)
    assert error < APART


def test_root_of_8_bits_is_exact_where_it_is_steep_too(recorded: Recorded) -> None:
    error, floor = steps(recorded, "8a8w", "aten_sqrt_default@0")
    assert error == 0.0
    assert floor == pytest.approx(APART)
