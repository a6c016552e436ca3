"""The defined corner cases of the metrics, each with its value worked out by hand."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from numpy.typing import DTypeLike

from qnndbg.analyze.metrics import BLOCK, measure
from qnndbg.model.result import MAX_SQNR_DB, ErrorMetrics


def test_every_metric_of_a_hand_worked_pair() -> None:
    measured = measure(np.array([3.0, 4.0, 0.0]), np.array([3.0, 4.0, 0.5]), step=0.25)
    assert measured.sqnr_db == pytest.approx(20.0)
    assert measured.max_abs == 0.5
    assert measured.mean_abs == pytest.approx(0.5 / 3)
    assert measured.relative_l2 == pytest.approx(0.1)
    assert measured.cosine == pytest.approx(25 / (5 * math.sqrt(25.25)))
    assert (measured.max_lsb, measured.max_ulp) == (2.0, None)
    assert (measured.mismatched, measured.nonfinite, measured.elements) == (1, 0, 3)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_equal_tensors_have_the_highest_sqnr_and_no_error(dtype: DTypeLike, shape: tuple[int, ...]) -> None:
    for fill in (0, 1):
        values = np.full(shape, fill, dtype)
        measured = measure(values, values.copy())
        assert (measured.sqnr_db, measured.max_abs, measured.relative_l2) == (MAX_SQNR_DB, 0.0, 0.0)
        assert (measured.mismatched, measured.elements) == (0, values.size)


def test_a_zero_signal_with_an_error_has_no_relative_metric() -> None:
    measured = measure(np.zeros(4), np.array([0.0, 0.0, 0.0, 2.0]))
    assert (measured.sqnr_db, measured.relative_l2, measured.cosine) == (None, None, None)
    assert (measured.max_abs, measured.mean_abs, measured.mismatched) == (2.0, 0.5, 1)


def test_an_empty_tensor_has_counts_only() -> None:
    measured = measure(np.zeros((0, 3)), np.zeros((0, 3)), step=0.1)
    assert measured == ErrorMetrics(
        sqnr_db=None,
        max_abs=None,
        mean_abs=None,
        relative_l2=None,
        cosine=None,
        max_lsb=None,
        max_ulp=None,
        mismatched=0,
        nonfinite=0,
        elements=0,
    )


def test_nan_and_infinity_equal_themselves() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 2.0], np.float32)
    measured = measure(values, values.copy())
    assert (measured.sqnr_db, measured.mismatched, measured.nonfinite) == (MAX_SQNR_DB, 0, 0)


def test_elements_that_turn_non_finite_are_counted_and_left_out() -> None:
    reference = np.array([1.0, 2.0, np.inf, np.nan, 4.0])
    target = np.array([1.5, np.nan, -np.inf, 3.0, 4.0])
    measured = measure(reference, target)
    assert (measured.mismatched, measured.nonfinite, measured.elements) == (4, 3, 5)
    assert (measured.max_abs, measured.mean_abs) == (0.5, 0.25)
    assert measured.sqnr_db == pytest.approx(10 * math.log10(17 / 0.25))


def test_nothing_is_left_where_every_element_turns_non_finite() -> None:
    measured = measure(np.array([1.0, 2.0]), np.array([np.nan, np.inf]))
    assert (measured.sqnr_db, measured.max_abs, measured.mismatched, measured.nonfinite) == (None, None, 2, 2)


@pytest.mark.parametrize(
    ("reference", "target", "distance"),
    [
        (np.array([2**60]), np.array([2**60 + 1]), 1.0),
        (np.array([2**63 - 1]), np.array([-(2**63)]), 2.0**64),
        (np.array([0], np.uint8), np.array([255], np.uint8), 255.0),
        (np.array([-128], np.int8), np.array([255], np.uint8), 383.0),
        (np.array([2**31 + 3]), np.array([3], np.int32), 2.0**31),
    ],
)
def test_integers_are_compared_exactly(reference: np.ndarray, target: np.ndarray, distance: float) -> None:
    measured = measure(reference, target)
    assert (measured.max_abs, measured.mismatched) == (distance, 1)


def test_unsigned_and_signed_64_bit_are_compared_exactly_for_equality() -> None:
    assert measure(np.array([2**63 + 1], np.uint64), np.array([2**63], np.uint64)).mismatched == 1
    assert measure(np.array([2**62 + 1], np.uint64), np.array([2**62], np.int64)).mismatched == 1


def test_bools_differ_by_one() -> None:
    measured = measure(np.array([True, True, False]), np.array([True, False, False]))
    assert (measured.mismatched, measured.max_abs) == (1, 1.0)
    assert measured.sqnr_db == pytest.approx(10 * math.log10(2))


def test_steps_broadcast_per_channel() -> None:
    reference = np.zeros((2, 3, 4))
    target = np.full((2, 3, 4), 0.5)
    assert measure(reference, target, step=np.array([[1.0], [0.25], [2.0]])).max_lsb == 2.0


@pytest.mark.parametrize("step", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_scale_gives_no_lsb(step: float) -> None:
    assert measure(np.array([1.0]), np.array([2.0]), step=step).max_lsb is None


@pytest.mark.parametrize(
    ("reference", "ulp"),
    [
        (0.0, 2.0**-24),
        (2.0**-20, 2.0**-24),
        (2.0**-14, 2.0**-24),
        (1.0, 2.0**-10),
        (-1.999, 2.0**-10),
        (65504.0, 32.0),
        (1e6, 32.0),
    ],
)
def test_ulp_is_the_spacing_of_fp16(reference: float, ulp: float) -> None:
    assert measure(np.array([reference]), np.array([reference + 3 * ulp]), fp16=True).max_ulp == 3.0


def test_ulp_is_for_real_values_without_an_encoding() -> None:
    assert measure(np.array([1]), np.array([2]), fp16=True).max_ulp is None
    assert measure(np.array([1.0]), np.array([2.0]), fp16=True, step=1.0).max_ulp is None


def test_layout_and_block_borders_do_not_matter() -> None:
    count = 2 * BLOCK + 17
    reference = np.arange(count, dtype=np.float32).reshape(-1, 1)
    target = np.asfortranarray(np.broadcast_to(reference, (count, 2)))[:, ::2].copy()
    target[BLOCK] += 1
    target[-1] -= 2
    measured = measure(reference, target)
    assert (measured.mismatched, measured.max_abs, measured.elements) == (2, 2.0, count)
    assert measured.mean_abs == pytest.approx(3 / count)


def test_float64_extremes_neither_overflow_nor_vanish() -> None:
    for size in (1e300, 1e-300, 5e-324):
        measured = measure(np.array([size, size]), np.array([size, 2 * size]))
        assert measured.sqnr_db == pytest.approx(10 * math.log10(2))
        assert measured.max_abs == size
    assert measure(np.array([1.7e308]), np.array([-1.7e308])).max_abs == np.finfo(np.float64).max


def test_memory_does_not_grow_with_the_tensor() -> None:
    reference = np.ones(2_000_000, np.float32)
    target = reference + np.float32(0.5)
    tracemalloc.start()
    measure(reference, target, step=0.1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def test_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"reference \(2,\), target \(2, 1\)"):
        measure(np.zeros(2), np.zeros((2, 1)))


def test_complex_values_are_refused() -> None:
    with pytest.raises(ValueError, match="complex128"):
        measure(np.zeros(2, complex), np.zeros(2, complex))


def test_a_step_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        measure(np.zeros((2, 3)), np.zeros((2, 3)), step=np.ones(2))
