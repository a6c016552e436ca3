"""In fp16 the local error names the product that leaves the range of half floats, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from qnndbg.recording.store import Recording
from tests.emulator.conftest import ROOT, Recorded

TARGETS = {
    "activation times activation": f"{ROOT}/examples/mixed.py:overflow",
    "activation times constant, then relu": "energy_relu",
    "activation times constant, then mul": "energy_mul",
}
CULPRIT = "aten_mul_tensor@0"
"""The first product, in each of them."""


@pytest.fixture(params=TARGETS)
def recording(request: pytest.FixtureRequest, recorded: Recorded) -> Recording:
    return recorded(TARGETS[request.param], "fp16")


def test_exactly_the_overflowing_product_is_off(recording: Recording) -> None:
    comparison = recording.comparison()
    assert comparison is not None
    assert comparison.coverage.share == 1.0
    computed = [x for x in comparison.layers if not x.given]
    local = {x.tensor: x.local.sqnr_db for x in computed if x.local and x.local.sqnr_db is not None}
    assert len(local) == comparison.coverage.total
    assert local.pop(CULPRIT) < 20
    assert min(local.values()) > 60
    assert (comparison.verdict.kind, comparison.verdict.culprit) == ("format", CULPRIT)
    assert [source.name for source in comparison.sources if source.cause == "overflow"] == [CULPRIT]


def test_accumulated_error_is_everywhere_behind_it(recording: Recording) -> None:
    comparison = recording.comparison()
    assert comparison is not None
    low = [x for x in comparison.layers if x.accumulated and (x.accumulated.sqnr_db or 200) < 20]
    assert len(low) >= 3


def test_exactly_that_product_is_out_of_range_in_the_float_reference(recording: Recording) -> None:
    values = {v.name: recording.tensor(v.tensor) for v in recording.runs["reference"].values}
    # 65504 is the largest half float, by IEEE 754.
    beyond = {name for name, value in values.items() if np.abs(value).max() > 65504}
    assert CULPRIT in beyond
    # A relu that reads it passes it on.
    assert beyond <= {CULPRIT, "aten_relu_default@0", "aten_mul_tensor_1@0"}
