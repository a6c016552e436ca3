"""Outputs that turn NaN or infinite: they outrank other errors, and whose they are."""

from __future__ import annotations

from msgspec.structs import replace

from qnndbg.analyze.nonfinite import NonFinite
from qnndbg.analyze.verdict import judge
from qnndbg.model.result import Rung, Verdict
from tests.unit.evidence import EXACT, error, evidence, half, ladder, quantisers, source


def test_elements_that_turn_non_finite_outrank_everything() -> None:
    rungs = ladder(("quantized", 5.0, 5.0), ("htp-tapped", 5.0, 60.0))
    lost = replace(
        rungs[-1], against_previous=error(60.0, nonfinite=2), against_eager=error(5.0, nonfinite=2)
    )
    verdict = judge(evidence((*rungs[:-1], lost), sources=(source(), quantisers())))
    assert verdict.kind == "backend"
    assert verdict.text.endswith(
        "the output has 2 elements that are NaN or infinite on one side against eager"
    )
    assert judge(evidence((*rungs[:-1], lost))).next_step.startswith("Find where the first NaN or infinity")


def judged_nonfinite(first: NonFinite) -> Verdict:
    lost = error(None, nonfinite=4)
    kept, htp = half(EXACT), Rung(name="htp", output=0, against_eager=lost, against_previous=lost)
    rungs = (*kept[:-2], replace(htp, name="htp-tapped"))
    return judge(evidence(rungs, precision="fp16", nonfinite=(first,)))


def test_nan_on_the_htp_alone_is_the_backends() -> None:
    made = NonFinite(
        method="forward",
        sample=0,
        name="div@0",
        nan=2,
        op="aten.div.Tensor",
        source="net.py:4",
        on_htp=True,
    )
    verdict = judged_nonfinite(made)
    assert (verdict.kind, verdict.culprit, verdict.op) == ("backend", "div@0", "aten.div.Tensor")
    assert "div (net.py:4) makes 2 NaN on the HTP where the CPU has numbers" in verdict.text


def test_nan_of_another_sample_explains_nothing() -> None:
    other = NonFinite(method="forward", sample=1, name="x", nan=1)
    verdict = judged_nonfinite(other)
    assert (verdict.kind, verdict.culprit) == ("backend", "")
