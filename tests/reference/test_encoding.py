"""Encodings against the formulas in float64 and against torch's and torchao's own operators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchao.quantization import quant_primitives

from qnndbg.analyze import normalize
from qnndbg.execute.encoding import dequantise, fake_quantise
from qnndbg.model.graph import QuantParams


def uint8(scale: float = 0.1, zero_point: int = 100) -> QuantParams:
    return QuantParams(scales=(scale,), zero_points=(zero_point,), qmin=0, qmax=255, dtype="uint8")


def int8(scales: tuple[float, ...], zero_points: tuple[int, ...], axis: int) -> QuantParams:
    return QuantParams(
        scheme="per_channel",
        scales=scales,
        zero_points=zero_points,
        qmin=-128,
        qmax=127,
        dtype="int8",
        axis=axis,
    )


def blocks(scales: tuple[float, ...], zero_points: tuple[int, ...], *size: int) -> QuantParams:
    return QuantParams(
        scheme="per_block",
        scales=scales,
        zero_points=zero_points,
        qmin=-8,
        qmax=7,
        dtype="int8",
        block_size=size,
    )


def equal(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=0, atol=0)


def near_grid(encoding: QuantParams, count: int, seed: int) -> tuple[torch.Tensor, np.ndarray]:
    """Values up to 0.4 steps off the grid, also beyond its ends, and their grid points in float64."""
    random = np.random.default_rng(seed)
    scale, zero_point = encoding.scales[0], encoding.zero_points[0]
    span = encoding.qmax - encoding.qmin
    integers = random.integers(encoding.qmin - span // 4, encoding.qmax + span // 4, count)
    values = (integers - zero_point + random.uniform(-0.4, 0.4, count)) * scale
    grid = (np.clip(integers, encoding.qmin, encoding.qmax) - zero_point) * scale
    return torch.tensor(values, dtype=torch.float32), grid


@pytest.mark.parametrize(
    "encoding",
    [
        uint8(),
        uint8(3.7e-5, 0),
        QuantParams(scales=(0.031,), zero_points=(-5,), qmin=-128, qmax=127, dtype="int8"),
        QuantParams(scales=(0.2,), zero_points=(0,), qmin=-7, qmax=7, dtype="int8"),
        QuantParams(scales=(5.2e-5,), zero_points=(7214,), qmin=0, qmax=65535, dtype="int32"),
        QuantParams(scales=(5.2e-5,), zero_points=(0,), qmin=-32768, qmax=32767, dtype="int16"),
    ],
)
def test_values_are_rounded_to_the_grid_and_clipped_to_its_ends(encoding: QuantParams) -> None:
    values, grid = near_grid(encoding, 1000, 0)
    rounded = fake_quantise(values, encoding)
    assert rounded.dtype == torch.float32
    np.testing.assert_allclose(rounded.double().numpy(), grid, rtol=3e-7)
    equal(fake_quantise(rounded, encoding), rounded)


@given(st.floats(1e-4, 10), st.integers(0, 255), st.integers(0, 2**31))
def test_per_tensor_is_torchs_fake_quantise(scale: float, zero_point: int, seed: int) -> None:
    x = torch.randn(64, generator=torch.Generator().manual_seed(seed)) * 100 * scale
    expected = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 255)
    equal(fake_quantise(x, uint8(scale, zero_point)), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_per_channel_is_torchs_fake_quantise(axis: int) -> None:
    x = torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(1)) * 5
    scales, zero_points = (0.5, 0.03, 0.001), (0, -3, 5)
    expected = torch.fake_quantize_per_channel_affine(
        x, torch.tensor(scales), torch.tensor(zero_points, dtype=torch.int32), axis, -128, 127
    )
    equal(fake_quantise(x, int8(scales, zero_points, axis)), expected)


@pytest.mark.parametrize(("size", "counts"), [((1, 4), (2, 2)), ((2, 8), (1, 1)), ((1, 8), (2, 1))])
def test_per_block_is_torchaos_affine_quantisation(size: tuple[int, int], counts: tuple[int, int]) -> None:
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(2))
    count = counts[0] * counts[1]
    scales, zero_points = (0.1, 0.31, 0.07, 0.2)[:count], (0, 1, -2, 3)[:count]
    grid = (size, torch.tensor(scales).reshape(counts), torch.tensor(zero_points).reshape(counts), torch.int8)
    integers = quant_primitives.quantize_affine(x, *grid, -8, 7)
    expected = quant_primitives.dequantize_affine(integers, *grid, -8, 7)
    encoding = blocks(scales, zero_points, *size)
    equal(fake_quantise(x, encoding), expected)
    equal(dequantise(integers, encoding), expected)


def test_one_scale_serves_all_blocks() -> None:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
    equal(fake_quantise(x, blocks((0.1,), (0,), 1, 4)), fake_quantise(x, blocks((0.1,) * 8, (0,) * 8, 1, 4)))


def test_zero_is_exact_and_infinities_are_the_ends() -> None:
    x = torch.tensor([0.0, -0.0, float("inf"), float("-inf")])
    assert fake_quantise(x, uint8(0.1, 100)).tolist() == pytest.approx([0.0, 0.0, 15.5, -10.0])
    assert fake_quantise(x, uint8(0.1, 100))[:2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    rounded = fake_quantise(torch.full(shape, 0.26), uint8())
    equal(rounded, torch.full(shape, 3 * 0.1))
    equal(dequantise(torch.full(shape, 103, dtype=torch.uint8), uint8()), torch.full(shape, 3 * 0.1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_become_float32(dtype: torch.dtype) -> None:
    rounded = fake_quantise(torch.tensor([0.25, 1.0], dtype=dtype), uint8(0.5, 0))
    equal(rounded, torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64]
)
def test_integers_are_what_the_formula_says(dtype: torch.dtype) -> None:
    top = min(torch.iinfo(dtype).max, 40000)
    integers = [0, 1, 17, 100, top]
    encoding = QuantParams(scales=(0.037,), zero_points=(17,), qmin=0, qmax=top, dtype="int32")
    real = dequantise(torch.tensor(integers).to(dtype), encoding)
    assert real.dtype == torch.float32
    np.testing.assert_allclose(real.numpy(), [(i - 17) * 0.037 for i in integers], rtol=3e-7)


def test_integers_beyond_31_bits_are_what_the_formula_says() -> None:
    encoding = QuantParams(scales=(0.5,), zero_points=(0,), qmin=0, qmax=2**32 - 1, dtype="uint32")
    real = dequantise(torch.tensor([3_000_000_000]).to(torch.uint32), encoding)
    assert real.tolist() == pytest.approx([1.5e9])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_integers_per_channel_are_what_the_formula_says(axis: int) -> None:
    integers = torch.arange(-4, 5, dtype=torch.int8).reshape(3, 3)
    scales, zero_points = (0.5, 0.03, 7.0), (0, -3, 5)
    expected = np.empty((3, 3))
    for index, value in np.ndenumerate(integers.numpy()):
        channel = index[axis]
        expected[index] = (int(value) - zero_points[channel]) * scales[channel]
    real = dequantise(integers, int8(scales, zero_points, axis))
    assert real.dtype == torch.float32
    np.testing.assert_allclose(real.numpy(), expected, rtol=3e-7)


@given(st.floats(1e-6, 10), st.integers(0, 65535), st.lists(st.integers(0, 65535), max_size=9))
def test_both_sides_of_a_comparison_read_integers_alike(
    scale: float, zero_point: int, integers: list[int]
) -> None:
    """The HTP's values, which numpy reads, meet the CPU's, which torch computed."""
    encoding = QuantParams(scales=(scale,), zero_points=(zero_point,), qmin=0, qmax=65535, dtype="int32")
    held = np.array(integers, np.uint16)
    one = torch.from_numpy(held.astype(np.int32))
    torch_op = torch.ops.quantized_decomposed.dequantize_per_tensor.default(
        one, scale, zero_point, 0, 65535, torch.int32
    )
    assert normalize.dequantise(held, encoding).tobytes() == torch_op.numpy().tobytes()
    assert dequantise(torch.from_numpy(held), encoding).numpy().tobytes() == torch_op.numpy().tobytes()


def test_both_sides_of_a_comparison_read_channels_alike() -> None:
    integers = np.arange(-128, 128, dtype=np.int8).reshape(4, 8, 8)
    encoding = int8(tuple(0.1 / (i + 1) for i in range(8)), tuple(range(8)), 1)
    ours = normalize.dequantise(integers, encoding)
    assert ours.tobytes() == dequantise(torch.from_numpy(integers), encoding).numpy().tobytes()


def test_scales_must_be_as_many_as_channels() -> None:
    three = QuantParams(
        scheme="per_channel",
        scales=(1.0, 2.0, 3.0),
        zero_points=(0,) * 3,
        qmin=-8,
        qmax=7,
        dtype="int8",
        axis=1,
    )
    for shape in ((3, 6), (3, 2)):
        with pytest.raises(ValueError, match=f"3 scales is not one of {shape[1]} channels"):
            dequantise(torch.ones(shape, dtype=torch.int8), three)


def test_a_scalar_stays_one_with_its_gradient() -> None:
    value = torch.tensor(0.33, requires_grad=True)
    rounded = fake_quantise(value, uint8(0.1, 0))
    assert rounded.shape == ()
    rounded.backward()
    assert float(rounded.detach()) == pytest.approx(0.3)
    assert value.grad == 1.0
