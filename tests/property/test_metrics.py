"""The metrics against the plain float64 formulas, and the laws that they must keep."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qnndbg.analyze.metrics import measure
from qnndbg.model.result import MAX_SQNR_DB, ErrorMetrics

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, max_side=5)
MODERATE = st.floats(-1000, 1000, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)


@st.composite
def pairs(draw: st.DrawFn, elements: st.SearchStrategy[float] = MODERATE) -> tuple[np.ndarray, np.ndarray]:
    """A reference and a target of one shape, float32."""
    shape = draw(SHAPES)
    return tuple(draw(hnp.arrays(np.float32, shape, elements=elements)) for _ in range(2))  # type: ignore[return-value]


def agree(left: ErrorMetrics, right: ErrorMetrics, *names: str) -> bool:
    """The named metrics are equal but for rounding, or undefined on both sides."""
    both = [(getattr(left, name), getattr(right, name)) for name in names]
    return all(a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-12) for a, b in both)


@given(pairs(), st.floats(1e-3, 10))
def test_the_plain_formulas(pair: tuple[np.ndarray, np.ndarray], step: float) -> None:
    a, b = (values.astype(np.float64).ravel() for values in pair)
    noise, signal = np.sum((b - a) ** 2), np.sum(a**2)
    measured = measure(*pair, step=step)
    assert measured.max_abs == np.max(np.abs(b - a))
    assert measured.mean_abs == pytest.approx(np.mean(np.abs(b - a)))
    assert measured.max_lsb == pytest.approx(np.max(np.abs(b - a)) / step)
    assert measured.mismatched == np.sum(a != b)
    if noise and signal:
        assert measured.sqnr_db == pytest.approx(10 * math.log10(signal / noise))
        assert measured.relative_l2 == pytest.approx(np.linalg.norm(b - a) / np.linalg.norm(a))
    if signal and np.any(b):
        assert measured.cosine == pytest.approx(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


@given(pairs())
def test_ulp_is_numpys_spacing_of_fp16(pair: tuple[np.ndarray, np.ndarray]) -> None:
    reference = pair[0].astype(np.float16).astype(np.float32)
    spacing = np.spacing(np.abs(reference).astype(np.float16)).astype(np.float64)
    expected = np.max(np.abs(pair[1].astype(np.float64) - reference) / spacing)
    assert measure(reference, pair[1], fp16=True).max_ulp == expected


@given(pairs(), st.integers(-900, 900))
def test_scaling_both_by_a_power_of_two_moves_absolute_errors_only(
    pair: tuple[np.ndarray, np.ndarray], exponent: int
) -> None:
    plain = measure(*(values.astype(np.float64) for values in pair))
    scaled = measure(*(np.ldexp(values.astype(np.float64), exponent) for values in pair))
    assert (scaled.mismatched, scaled.elements) == (plain.mismatched, plain.elements)
    assert agree(scaled, plain, "sqnr_db", "relative_l2", "cosine")
    assert plain.max_abs is not None
    assert scaled.max_abs == math.ldexp(plain.max_abs, exponent)


@given(pairs())
def test_swapping_the_sides_keeps_what_does_not_ask_for_a_signal(pair: tuple[np.ndarray, np.ndarray]) -> None:
    there, back = measure(*pair), measure(*reversed(pair))
    assert agree(there, back, "max_abs", "mean_abs", "cosine", "mismatched", "nonfinite", "elements")


@given(pairs(st.floats(width=32)))
def test_any_float_has_defined_metrics(pair: tuple[np.ndarray, np.ndarray]) -> None:
    measured = measure(*pair, fp16=True)
    same = (pair[0] == pair[1]) | (np.isnan(pair[0]) & np.isnan(pair[1]))
    lost = ~same & ~(np.isfinite(pair[0]) & np.isfinite(pair[1]))
    assert (measured.mismatched, measured.nonfinite) == (np.sum(~same), np.sum(lost))
    floats = (measured.sqnr_db, measured.max_abs, measured.mean_abs, measured.relative_l2, measured.max_ulp)
    assert all(value is None or math.isfinite(value) for value in floats)
    assert (measured.max_abs is None) == (measured.nonfinite == measured.elements)


@given(SHAPES.flatmap(lambda shape: hnp.arrays(hnp.scalar_dtypes(), shape)))
def test_a_tensor_equals_itself(values: np.ndarray) -> None:
    assume(values.dtype.kind in "biuf")
    measured = measure(values, values.copy())
    assert (measured.sqnr_db, measured.max_abs, measured.mismatched) == (MAX_SQNR_DB, 0.0, 0)


@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_elements_does_not_matter(
    pair: tuple[np.ndarray, np.ndarray], source: random.Random
) -> None:
    order = list(range(pair[0].size))
    source.shuffle(order)
    plain = measure(*(values.ravel() for values in pair))
    shuffled = measure(*(values.ravel()[order] for values in pair))
    assert (shuffled.max_abs, shuffled.mismatched) == (plain.max_abs, plain.mismatched)
    assert shuffled.sqnr_db == pytest.approx(plain.sqnr_db)


@given(hnp.arrays(np.int64, st.just((3,))), hnp.arrays(np.int64, st.just((3,))))
def test_integer_distance_is_exact(reference: np.ndarray, target: np.ndarray) -> None:
    exact = max(abs(int(a) - int(b)) for a, b in zip(reference, target, strict=True))
    assert measure(reference, target).max_abs == float(exact)
