"""How errors and values are counted, on tensors that can be counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from qnndbg.analyze import histogram
from qnndbg.analyze.histogram import BINS, error_histogram, value_histogram
from qnndbg.analyze.values import Values, values_of
from qnndbg.recording.store import open_recording
from tests.unit.evidence import layer
from tests.unit.recordings import HALF, Maker, Tensor, node, raw, real

LAYER = layer("relu", local=None, accumulated=None, floor=None)
"""Its encoding has steps of 0.5 and a zero point of 10."""
FLOAT = replace(LAYER, encoding=None)


def values(target: np.ndarray, reference: np.ndarray | None, local: np.ndarray | None = None) -> Values:
    return Values(target, reference, local)


def test_small_errors_get_a_bin_for_each_step() -> None:
    found = error_histogram(values(real(1.0, 1.5, 2.0, 0.0), real(1.0, 1.0, 1.0, 0.5)), LAYER)
    assert found is not None
    assert found.unit == "LSB"
    assert found.edges == (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
    assert found.counts == {"accumulated": (0, 1, 1, 1, 1)}


def test_both_errors_share_the_bins_and_no_element_is_lost() -> None:
    rng = np.random.default_rng(0)
    target = rng.normal(size=5000).astype(np.float32)
    reference, local = target + 3, target + rng.normal(size=5000).astype(np.float32)
    found = error_histogram(values(target, reference, local), FLOAT)
    assert found is not None
    assert found.unit == ""
    assert {name: sum(counts) for name, counts in found.counts.items()} == {
        "accumulated": 5000,
        "local": 5000,
    }
    assert len(found.edges) <= BINS + 3


def test_zero_is_in_the_middle_of_a_bin() -> None:
    found = error_histogram(values(real(0.0, 0.123), real(0.0, 0.0)), FLOAT)
    assert found is not None
    middle = len(found.edges) // 2
    assert found.edges[middle - 1] == pytest.approx(-found.edges[middle])
    assert found.counts["accumulated"][middle - 1] == 1


def test_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    target, reference = real(*range(10)), real(*range(1, 11))
    whole = error_histogram(values(target, reference), LAYER)
    monkeypatch.setattr(histogram, "BLOCK", 3)
    assert error_histogram(values(target, reference), LAYER) == whole


@pytest.mark.parametrize(
    ("target", "reference"),
    [(real(1, 2), real(1, 2)), (real(1, 2), None), (real(), real()), (real(np.inf), real(1))],
    ids=["equal", "no reference", "empty", "not finite"],
)
def test_nothing_to_count_is_no_histogram(target: np.ndarray, reference: np.ndarray | None) -> None:
    assert error_histogram(values(target, reference), LAYER) is None


def test_values_are_counted_with_the_ends_of_the_range() -> None:
    found = value_histogram(values(real(-5, 0, 122.5), real(-5, 0, np.nan)), LAYER)
    assert found is not None
    assert (found.edges[0], found.edges[-1]) == (-5.0, 122.5)
    assert {name: sum(counts) for name, counts in found.counts.items()} == {"CPU": 2, "HTP": 3}
    assert found.marks == (-5.0, 122.5)


def test_a_constant_tensor_has_a_width() -> None:
    found = value_histogram(values(real(3, 3), real(3, 3)), FLOAT)
    assert found is not None
    assert (found.edges[0], found.edges[-1], found.marks) == (2.5, 3.5, ())


def test_values_are_those_that_the_errors_are_of(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    tensor = Tensor(
        name="relu@0",
        made_by=node("relu"),
        encoding=HALF,
        htp=raw(10, 13, 30),
        reference=real(0, 1, 10),
        local=real(0, 1.5, 10),
    )
    maker.partition(0, [tensor])
    (compared,) = maker.compared().layers
    found = values_of(open_recording(tmp_path), compared)
    assert found is not None
    assert found.target.tolist() == [0.0, 1.5, 10.0]
    assert found.reference is not None
    assert found.local is not None
    rms = float(np.sqrt(np.mean((found.target.astype(float) - found.reference.astype(float)) ** 2)))
    assert compared.accumulated is not None
    assert compared.accumulated.rms_abs == pytest.approx(rms)
    assert found.local.tolist() == found.target.tolist()
