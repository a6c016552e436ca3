"""Elements of two sides: worst, histograms and channels against plain numpy, whatever the slabs."""

from __future__ import annotations

import numpy as np
import pytest

from qnndbg.analyze import elements
from qnndbg.analyze.elements import Pair, Worst, codes, look, saturated, slabs
from qnndbg.model.graph import QuantParams

CODE = QuantParams(scales=(0.5,), zero_points=(10,), qmin=0, qmax=255, dtype="uint8")


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 4, 5), (1, 1, 1000), (0, 3), (4, 0)])
@pytest.mark.parametrize("limit", [1, 4, 20, 1 << 16])
def test_slabs_cover_every_element_once(shape: tuple[int, ...], limit: int) -> None:
    seen = np.zeros(shape, int)
    for index in slabs(shape, limit):
        seen[index] += 1
    assert (seen == 1).all()


def test_slabs_are_no_larger_than_a_row_or_the_limit() -> None:
    assert max(np.zeros((6, 4, 10))[index].size for index in slabs((6, 4, 10), 25)) == 20


def pair(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Pair, np.ndarray, np.ndarray]:
    integers = rng.integers(0, 256, shape).astype(np.uint8)
    real = (integers.astype(np.float64) - 10) * 0.5
    reference = (real + rng.normal(0, 0.4, shape)).astype(np.float32)
    return Pair(reference, integers, CODE), reference.astype(np.float64), real


@pytest.mark.parametrize("slab", [5, 64, 1 << 16])
def test_what_is_found_is_what_numpy_finds_on_the_whole(slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "slabs", lambda shape, limit=slab: slabs(shape, limit))
    both, a, b = pair(np.random.default_rng(1), (2, 6, 3, 5))
    found = look(both, bins=16, worst=4)
    assert found is not None
    error = b - a
    order = np.argsort(-np.abs(error).reshape(-1))[:4]
    places = [tuple(map(int, np.unravel_index(i, a.shape))) for i in order]
    assert list(found.worst) == [Worst(i, float(a[i]), float(b[i])) for i in places]
    far = float(np.abs(error).max())
    assert (found.error.low, found.error.high) == (-far, far)
    assert found.error.counts == tuple(np.histogram(error, 16, (-far, far))[0])
    low, high = float(min(a.min(), b.min())), float(max(a.max(), b.max()))
    assert found.target.counts == tuple(np.histogram(b, 16, (low, high))[0])
    assert found.channel_axis == 1
    assert found.channels == pytest.approx(np.sqrt((error**2).mean(axis=(0, 2, 3))))


def test_equal_sides_have_no_worst_element() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = look(Pair(values, values))
    assert found is not None
    assert found.worst == ()
    assert sum(found.error.counts) == 6


def test_an_element_that_turns_nan_is_the_worst_and_in_no_histogram() -> None:
    reference = np.array([1.0, 2.0, 3.0], np.float32)
    found = look(Pair(reference, np.array([1.0, np.nan, 2.5], np.float32)))
    assert found is not None
    assert [worst.index for worst in found.worst] == [(1,), (2,)]
    assert found.nonfinite == 1
    assert sum(found.target.counts) == 2


def test_sides_of_other_shapes_are_not_held_against_one_another() -> None:
    assert look(Pair(np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32))) is None


def test_dimensions_of_one_do_not_matter() -> None:
    found = look(Pair(np.ones((1, 3), np.float32), np.zeros(3, np.float32)))
    assert found is not None
    assert len(found.worst) == 3


def test_saturation_counts_both_ends_but_no_zero() -> None:
    values = np.array([0, 0, 255, 10, 20], np.uint8)
    assert saturated(values, CODE) == pytest.approx(3 / 5)
    relu = QuantParams(scales=(0.5,), zero_points=(0,), qmin=0, qmax=255, dtype="uint8")
    assert saturated(values, relu) == pytest.approx(1 / 5)  # 0 is what a relu gives
    assert saturated(values.astype(np.float32), CODE) is None


def test_each_channel_has_its_own_scale() -> None:
    code = QuantParams(
        scales=(1.0, 10.0), zero_points=(0, 5), qmin=0, qmax=255, dtype="uint8", axis=0, scheme="per_channel"
    )
    found = look(Pair(np.array([[3.0], [50.0]], np.float32), np.array([[3], [10]], np.uint8), code))
    assert found is not None
    assert found.worst == ()


@pytest.mark.parametrize("huge", [-3.4e38, 1e150, 2.0**60, 5e-324])
def test_numbers_that_floats_cannot_divide_the_space_between_have_a_histogram(huge: float) -> None:
    side = np.full((2, 8), huge)
    found = look(Pair(side, side * (1 + 1e-15)))
    assert found is not None
    assert sum(found.reference.counts) == 16


def test_real_numbers_as_the_codes_that_stand_for_them() -> None:
    numbers = np.array([[0.0, 0.24, 0.26, -5.0], [-7.0, 1e9, 122.5, np.nan]], np.float32)
    found = codes(numbers, CODE, (slice(0, 2), slice(0, 4)))
    assert found is not None
    expected = np.array([[10, 10, 11, 0], [0, 255, 255, np.nan]])
    assert np.array_equal(found, expected, equal_nan=True)


def test_codes_of_a_slab_are_in_the_encodings_of_its_channels() -> None:
    encoding = QuantParams(
        scheme="per_channel", scales=(1.0, 0.5), zero_points=(0, 3), qmin=-8, qmax=7, dtype="int8", axis=0
    )
    found = codes(np.ones((2, 3), np.float32), encoding, (slice(1, 2), slice(0, 3)))
    assert found is not None
    assert found.tolist() == [[5, 5, 5]]
