"""A hand-made answer with one of everything, for the formats that a file can hold."""

from __future__ import annotations

from qnndbg.model.graph import QuantParams, TensorRef
from qnndbg.model.recording import (
    Accuracy,
    Environment,
    FailingNode,
    Failure,
    Fallback,
    Input,
    Manifest,
    Method,
    PassEvent,
    Port,
)
from qnndbg.model.result import (
    Comparison,
    Coverage,
    ErrorMetrics,
    Finding,
    LayerResult,
    Rung,
    Source,
    Verdict,
)

ENVIRONMENT = Environment(
    qnndbg="0.1.0", python="3.11.9", host="Linux x86_64", packages={"torch": "2.13.0"}, qnn_build="v2.49"
)
U8 = QuantParams(scales=(0.5,), zero_points=(10,), qmin=0, qmax=255, dtype="uint8")
PER_CHANNEL = QuantParams(
    scheme="per_channel", scales=(0.5, 0.25), zero_points=(0, 0), qmin=-128, qmax=127, dtype="int8", axis=0
)


def error(db: float | None, lsb: float = 0.0, rms: float = 0.0, nonfinite: int = 0) -> ErrorMetrics:
    """An error of so many dB; 200 dB are equal."""
    equal = db == 200.0
    return ErrorMetrics(
        sqnr_db=db,
        max_abs=lsb / 2,
        mean_abs=lsb / 4,
        relative_l2=0.0 if equal else 0.01,
        cosine=1.0 if equal else 0.999,
        max_lsb=float(lsb),
        max_ulp=None,
        rms_abs=rms,
        mismatched=0 if equal else 7,
        nonfinite=nonfinite,
        elements=64,
    )


EQUAL = error(200.0)


def layer(
    tensor: str, module: str, accumulated: ErrorMetrics | None, local: ErrorMetrics | None
) -> LayerResult:
    return LayerResult(
        tensor=tensor,
        method="forward",
        partition=0,
        op=f"aten.{tensor.split('_')[1]}.default",
        qnn_op=tensor.split("_")[1].title(),
        module=module,
        source="net.py:21",
        created_by="",
        shape=(1, 8, 4),
        dtype="UFIXED_POINT_8",
        reference_dtype="float32",
        encoding=U8,
        reference_encoding=U8,
        accumulated=accumulated,
        local=local,
        reason="" if accumulated else "not dumped by the backend",
        floor=0.25 if local else None,
        effect=0.9 if module == "stem.act" else None,
    )


def rung(
    name: str, eager: ErrorMetrics | None, previous: ErrorMetrics | None, output: int = 0, note: str = ""
) -> Rung:
    return Rung(name=name, output=output, against_eager=eager, against_previous=previous, note=note)


LAYERS = (
    layer("aten_convolution_default@0", "stem", error(60.0, 1, 0.1), error(60.0, 1, 0.1)),
    layer("aten_hardswish_default@0", "stem.act", error(12.0, 90, 5.0), error(12.0, 90, 5.0)),
    layer("aten_linear_default@0", "head", error(13.0, 60, 4.0), error(90.0, 1, 0.01)),
    layer("aten_permute_default@0", "", None, None),
)
LADDER = (
    rung("eager", EQUAL, None),
    rung("quantized", error(40.0), error(40.0)),
    rung("edge", error(40.0), EQUAL),
    rung("reference", error(40.0), EQUAL),
    rung("htp-tapped", error(12.5), error(12.6)),
    rung("htp", error(12.5), EQUAL),
    rung("eager", EQUAL, None, 1),
    rung("htp", error(55.0), error(55.0), 1),
    rung("eager", EQUAL, None, 2),
    rung("htp", None, None, 2, "shape (2, 1), not (2,)"),
)
VERDICT = Verdict(
    kind="backend",
    text="backend: 90% of the error of the output is made at hardswish (net.py:21); 12.5 dB against eager",
    culprit="aten_hardswish_default@0",
    next_step="Keep hardswish off the HTP, and record again.",
    op="aten.hardswish.default",
    share=0.9,
    confidence="measured",
)
SOURCE = Source(
    step="backend",
    method="forward",
    sample=0,
    output=0,
    kind="op",
    name="aten_hardswish_default@0",
    op="aten.hardswish.default",
    module="stem.act",
    source="net.py:21",
    share=0.9,
    excess=20.0,
    cause="kernel",
    detail="its error is 20 times what rounding explains",
)
FINDINGS = (
    Finding(
        rule="QD103",
        severity="error",
        where="aten_hardswish_default@0",
        message="hardswish: its error is 20 times what rounding explains",
        evidence="90.0% of the error of output 0 in the step backend",
        help="Keep it off the HTP, or write it in other ops.",
        module="stem.act",
        source="net.py:21",
    ),
    Finding(
        rule="QD303",
        severity="warning",
        where="forward",
        message="nothing of <img src=x onerror=alert(1)> @someone #12 is | delegated",
        help="See the reasons.",
    ),
    Finding(rule="QD999", severity="note", where="later", message="a rule that this version does not know"),
)
COMPARISON = Comparison(
    verdict=VERDICT,
    ladder=LADDER,
    layers=LAYERS,
    coverage=Coverage(compared=3, total=4, reasons={"not dumped by the backend": 1}, given={"weight": 2}),
    sources=(SOURCE,),
    findings=FINDINGS,
)
MANIFEST = Manifest(
    target="net.py:make",
    precision="8a8w",
    soc="SM8650",
    environment=ENVIRONMENT,
    complete=True,
    inputs=(Input(name="x", tensor=TensorRef("0" * 32, "float32", (1, 8, 4))),),
    methods=(
        Method(
            name="forward",
            inputs=(Port(shape=(1, 8, 4), dtype="float32"), None),
            outputs=(Port(shape=(2,), dtype="float32"),),
            partitions=1,
            fallbacks=(
                Fallback(node="topk", op="aten.topk.default", reason="the backend has no builder for it"),
            ),
        ),
    ),
    notes=("the last layer was retrained",),
    accuracy=Accuracy(samples=10, correct={"eager": 9, "htp": 7}),
)
PASSES = (
    PassEvent(index=0, stage="transform", name="", after="0" * 32),
    PassEvent(index=1, stage="transform", name="FoldQDQ", changed=True, claimed_modified=True),
    PassEvent(index=2, stage="transform", name="RemoveNothing", claimed_modified=True),
)
FAILED = Manifest(
    target="example:digits",
    precision="16a4w",
    soc="SM8350",
    environment=ENVIRONMENT,
    failure=Failure(
        step="lower",
        error="the HTP refuses aten.grid_sampler_2d.default",
        hint="keep the op on the CPU",
        node=FailingNode(name="grid", op="aten.grid_sampler_2d.default", source="net.py:7"),
    ),
)
