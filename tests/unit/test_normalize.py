"""Canonical form against the plain formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from qnndbg.analyze.normalize import dequantise, half_of, same_rank, saturate, step_of
from qnndbg.model.graph import QuantParams


def per_tensor(scale: float, zero_point: int) -> QuantParams:
    return QuantParams(scales=(scale,), zero_points=(zero_point,), qmin=0, qmax=255, dtype="uint8")


def per_channel(scales: tuple[float, ...], zero_points: tuple[int, ...], axis: int) -> QuantParams:
    return QuantParams(
        scheme="per_channel",
        scales=scales,
        zero_points=zero_points,
        qmin=-128,
        qmax=127,
        dtype="int8",
        axis=axis,
    )


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """But for the rounding of float32."""
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-7)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.int16, np.int32])
def test_per_tensor(dtype: type[np.generic]) -> None:
    values = np.array([[0, 1, 17], [100, 120, 127]], dtype)
    close(dequantise(values, per_tensor(0.037, 17)), 0.037 * (values.astype(np.float64) - 17))


def test_zero_point_is_exactly_zero() -> None:
    assert dequantise(np.array([7214], np.uint16), per_tensor(5.2e-5, 7214)).tolist() == [0.0]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_per_channel(axis: int) -> None:
    values = np.arange(27, dtype=np.int8).reshape(3, 3, 3)
    scales, zero_points = (0.5, 0.031, 7.0), (0, -3, 5)
    expected = np.empty((3, 3, 3))
    for index, value in np.ndenumerate(values):
        channel = index[axis]
        expected[index] = (int(value) - zero_points[channel]) * scales[channel]
    close(dequantise(values, per_channel(scales, zero_points, axis)), expected)


def test_a_number_has_no_axis() -> None:
    real = dequantise(np.array(3, np.uint8), per_tensor(0.5, 1))
    assert (real.shape, float(real)) == ((), 1.0)
    assert float(dequantise(np.array(3, np.int8), per_channel((0.5,), (1,), 0))) == 1.0


def test_empty_tensor() -> None:
    assert dequantise(np.empty((0, 4), np.uint8), per_tensor(0.5, 1)).shape == (0, 4)


@pytest.mark.parametrize(("rank", "shape"), [(0, ()), (1, ()), (4, ())])
def test_step_per_tensor_is_one_number(rank: int, shape: tuple[int, ...]) -> None:
    step = step_of(per_tensor(0.25, 3), rank)
    assert (step.shape, float(step)) == (shape, 0.25)


def test_step_per_channel_lies_along_its_axis() -> None:
    step = step_of(per_channel((0.5, 0.25), (0, 0), 1), 4)
    assert (step.shape, step.reshape(-1).tolist()) == ((1, 2, 1, 1), [0.5, 0.25])


def test_what_a_half_float_cannot_hold_is_read_as_the_limit() -> None:
    dumped = np.array([np.inf, -np.inf, 2e5, -131008.0, 65536.0, 1.5, np.nan], np.float32)
    np.testing.assert_array_equal(
        saturate(dumped), np.array([131008, -131008, 131008, -131008, 65536, 1.5, np.nan], np.float32)
    )


def test_dump_in_half_floats_is_read_as_the_limit() -> None:
    assert saturate(np.array([np.inf, 1.5], np.float16)).astype(np.float64).tolist() == [131008.0, 1.5]


def test_integers_are_never_saturated() -> None:
    values = np.array([2**31 - 1, -(2**31)], np.int32)
    assert saturate(values) is values


@pytest.mark.parametrize(
    ("reference", "target", "shape"),
    [
        ((), (1,), ()),
        ((), (1, 1), ()),
        ((1,), (), (1,)),
        ((2, 3), (1, 2, 3), (2, 3)),
        ((1, 2, 1, 3), (2, 3), (1, 2, 1, 3)),
        ((2, 3), (3, 2), (3, 2)),
        ((2, 3), (6,), (6,)),
        ((), (2,), (2,)),
        ((0, 1), (0,), (0, 1)),
        ((0,), (1,), (1,)),
    ],
)
def test_only_dimensions_of_one_may_differ(
    reference: tuple[int, ...], target: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    values = np.arange(np.prod(target, dtype=int)).reshape(target)
    found = same_rank(np.zeros(reference), values)
    assert found.shape == shape
    np.testing.assert_array_equal(found.reshape(-1), values.reshape(-1))


def test_half_floats_are_those_of_ieee_up_to_their_last_exponent() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=2000) * 10.0 ** random.uniform(-9, 4, 2000)
    assert np.array_equal(half_of(values), values.astype(np.float16).astype(np.float64))


def test_half_floats_of_the_htp_go_on_where_those_of_ieee_are_infinite() -> None:
    values = np.array([65536.0, -70_001.0, 131_008.0, 200_000.0, -np.inf])
    assert half_of(values).tolist() == [65536.0, -70016.0, 131_008.0, 131_008.0, -131_008.0]
