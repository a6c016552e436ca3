"""What a verdict rests on, made by hand: errors of so many dB, rungs, effects and sources."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from qnndbg.analyze.verdict import Evidence
from qnndbg.model.attribution import Attribution, Effect, Rounding
from qnndbg.model.graph import QuantParams
from qnndbg.model.result import MAX_SQNR_DB, Coverage, ErrorMetrics, LayerResult, Rung, Source

EXACT = MAX_SQNR_DB
FULL = Coverage(compared=3, total=3, reasons={})


def error(sqnr_db: float | None, *, nonfinite: int = 0, rms: float | None = None) -> ErrorMetrics:
    """An error of so many dB; ``EXACT`` is none."""
    equal = sqnr_db == EXACT and not nonfinite
    return ErrorMetrics(
        sqnr_db=sqnr_db,
        max_abs=0.0 if equal else 1.0,
        mean_abs=None,
        relative_l2=None,
        cosine=None,
        max_lsb=None,
        max_ulp=None,
        rms_abs=rms,
        mismatched=0 if equal else 5,
        nonfinite=nonfinite,
        elements=10,
    )


def ladder(*steps: tuple[str, float, float], **fields: Any) -> tuple[Rung, ...]:
    """Rungs of name, dB against eager and dB against the rung before."""
    first = Rung(name="eager", output=0, against_eager=error(EXACT), against_previous=None)
    rest = (
        Rung(name=name, output=0, against_eager=error(eager), against_previous=error(previous))
        for name, eager, previous in steps
    )
    return tuple(replace(rung, **fields) for rung in (first, *rest))


def quantised(model: float, edge: float, htp: float, final: float) -> tuple[Rung, ...]:
    """A quantised ladder from what each step leaves of the step before, and the end against eager."""
    return ladder(
        ("annotation", EXACT, EXACT),
        ("quantized", model, model),
        ("export", model, EXACT),
        ("edge", model, edge),
        ("transform", model, EXACT),
        ("reference", model, EXACT),
        ("htp-tapped", final, htp),
        ("htp", final, EXACT),
    )


def half(htp: float, **fields: Any) -> tuple[Rung, ...]:
    """A ladder in fp16 in which nothing but the HTP errs."""
    kept = (("export", EXACT, EXACT), ("reference", EXACT, EXACT))
    return ladder(*kept, ("htp-tapped", htp, htp), ("htp", htp, EXACT), **fields)


def evidence(rungs: tuple[Rung, ...], **fields: Any) -> Evidence:
    """With full coverage, of a model in 16a8w."""
    known: dict[str, Any] = {"layers": (), "coverage": FULL, "precision": "16a8w"}
    return Evidence(ladder=rungs, **known | fields)


def source(op: str = "hardswish", **fields: Any) -> Source:
    """A kernel of the HTP that makes 90 % of the output's error."""
    made = Source(
        step="backend",
        method="forward",
        sample=0,
        output=0,
        kind="op",
        name=f"aten_{op}_default@0",
        op=f"aten.{op}.default",
        module=f"block.{op}",
        source="net.py:7",
        share=0.9,
        excess=70.0,
        cause="kernel",
        detail="its error is 70 times what rounding explains",
    )
    return replace(made, **fields)


def quantisers(op: str = "conv2d", **fields: Any) -> Source:
    """An encoding that clips, which makes 90 % of the quantised model's error."""
    fields = {"cause": "clipped", "detail": "12.5% of its values are clipped"} | fields
    return source(op, step="quantisation", excess=None, **fields)


def effect(**fields: Any) -> Effect:
    """An op of which rounding explains all, and which makes half of the output's error."""
    made = Effect(
        kind="op",
        name="aten_mul_tensor@0",
        node="aten_mul_tensor",
        op="aten.mul.Tensor",
        error=0.01,
        floor=0.01,
        signal=1.0,
        linear=0.5,
        exact=0.5,
        peak=10.0,
    )
    return replace(made, **fields)


def rounding(**fields: Any) -> Rounding:
    """An encoding of 8 bits that fits."""
    return replace(Rounding(bits=8, clipped=0.0, clipped_energy=0.0, range_used=0.9), **fields)


def attribution(*effects: Effect, **fields: Any) -> Attribution:
    """The backend's error of an output, a hundredth of it."""
    made = Attribution(step="backend", method="forward", error=0.01, signal=1.0, effects=effects)
    return replace(made, **fields)


def layer(
    name: str, *, local: ErrorMetrics | None, accumulated: ErrorMetrics | None, floor: float | None
) -> LayerResult:
    """A QNN tensor of which these errors are known."""
    encoding = QuantParams(scales=(0.5,), zero_points=(10,), qmin=0, qmax=255, dtype="uint8")
    return LayerResult(
        tensor=f"aten_{name}_default@0",
        method="forward",
        partition=0,
        op=f"aten.{name}.default",
        qnn_op="",
        module=f"block.{name}",
        source="net.py:7",
        created_by="",
        shape=(10,),
        dtype="UFIXED_POINT_8",
        reference_dtype="float32",
        encoding=encoding,
        reference_encoding=encoding,
        accumulated=accumulated,
        local=local,
        reason="",
        floor=floor,
    )
