"""Hand-made recordings, and their golden files; ``UPDATE_GOLDEN=1 pytest tests/golden`` rewrites these."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from qnndbg.analyze.verdict import Evidence, judge
from qnndbg.model.graph import QuantParams, TensorRef
from qnndbg.model.recording import Accuracy, Environment, Failure, Input, Manifest, PassEvent, Stage
from qnndbg.model.result import MAX_SQNR_DB, Comparison, Coverage, ErrorMetrics, LayerResult, Rung, Source

FOLDER = Path(__file__).parent
FLOOR = 0.001
"""Of every layer, in real units."""
Golden = Callable[[str, str], None]


class Recorded(NamedTuple):
    """What the reports get."""

    manifest: Manifest
    comparison: Comparison | None
    passes: tuple[PassEvent, ...]


@pytest.fixture
def golden() -> Golden:
    """Compare a text with a file, but for spaces at the ends of lines, which a table pads cells with."""

    def check(name: str, text: str) -> None:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        path = FOLDER / name
        if "UPDATE_GOLDEN" in os.environ:
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check


def error(
    sqnr_db: float | None, *, lsb: float | None = None, ulp: float | None = None, floors: float | None = None
) -> ErrorMetrics:
    """An error of so many dB and noise floors; 200 dB are equal."""
    equal = sqnr_db == MAX_SQNR_DB
    relative = None if sqnr_db is None else 0.0 if equal else round(10 ** (-sqnr_db / 20), 8)
    return ErrorMetrics(
        sqnr_db=sqnr_db,
        max_abs=0.0 if equal else 0.25,
        mean_abs=0.0 if equal else 0.125,
        relative_l2=relative,
        cosine=1.0 if equal else 0.999,
        max_lsb=lsb,
        max_ulp=ulp,
        rms_abs=None if floors is None else 0.0 if equal else floors * FLOOR,
        mismatched=0 if equal else 100,
        nonfinite=0,
        elements=1024,
    )


def encoding(dtype: str) -> QuantParams:
    bits = 8 if dtype.endswith("8") else 16
    return QuantParams(scales=(5.2e-05,), zero_points=(7214,), qmin=0, qmax=2**bits - 1, dtype=f"uint{bits}")


SHORT = 4
"""Numbers of a line without floors and effect."""


def layers(table: str, dtype: str, unit: str) -> tuple[LayerResult, ...]:
    """Lines of tensor, op, module, source; accumulated dB, steps and floors; the same local; effect."""
    return tuple(layer([cell.strip() for cell in line.split("|")], dtype, unit) for line in table.split("\n"))


def layer(cells: list[str], dtype: str, unit: str) -> LayerResult:
    tensor, op, module, source, *numbers = cells
    if len(numbers) == SHORT:
        numbers = [*numbers[:2], "0", *numbers[2:], "0", "0"]
    accumulated_db, accumulated, inherited, local_db, local, excess, effect = map(float, numbers)
    quantised = encoding(dtype) if dtype.startswith("UFIXED") else None
    return LayerResult(
        tensor=tensor,
        method="forward",
        partition=0,
        op=op,
        qnn_op=op.split(".")[1].title() if "." in op else op,
        module=module,
        source=source,
        created_by="" if source else "LayoutTransform",
        shape=(1, 8, 16, 16),
        dtype=dtype,
        reference_dtype="float32",
        encoding=quantised,
        reference_encoding=quantised,
        accumulated=error(accumulated_db, floors=inherited, **{unit: accumulated}),
        local=error(local_db, floors=excess, **{unit: local}),
        reason="",
        floor=FLOOR,
        effect=effect,
        fused=tensor in FUSED,
    )


def source(layer: LayerResult, share: float, excess: float, **cause: str) -> Source:
    """The backend's error of the only output that is made at a layer."""
    return Source(
        step="backend",
        method="forward",
        sample=0,
        output=0,
        kind="op",
        name=layer.tensor,
        op=layer.op,
        module=layer.module,
        source=layer.source,
        share=share,
        excess=excess,
        cause=cause["cause"],  # type: ignore[arg-type]
        detail=cause["detail"],
    )


def uncompared(tensor: str, op: str, reason: str) -> LayerResult:
    return LayerResult(
        tensor=tensor,
        method="forward",
        partition=0,
        op=op,
        qnn_op="Permute",
        module="",
        source="",
        created_by="LayoutTransform",
        shape=(1, 16, 16, 8),
        dtype="UFIXED_POINT_16",
        reference_dtype="float32",
        encoding=None,
        reference_encoding=None,
        accumulated=None,
        local=None,
        reason=reason,
    )


def rungs(output: int, *steps: tuple[str, float, float, str]) -> tuple[Rung, ...]:
    """Name, dB against eager, dB against the rung before, note."""
    first = Rung(name="eager", output=output, against_eager=error(MAX_SQNR_DB), against_previous=None)
    rest = (
        Rung(
            name=name,
            output=output,
            against_eager=error(eager),
            against_previous=error(previous),
            note=note,
        )
        for name, eager, previous, note in steps
    )
    return (first, *rest)


def events(stage: Stage, count: int, *changing: str, partition: int | None = None) -> tuple[PassEvent, ...]:
    """The snapshot with which a stage begins, passes that change nothing but say so, and those that do."""
    names = ["", *(f"Quiet{i}" for i in range(count - len(changing))), *changing]
    return tuple(
        PassEvent(
            index=i,
            stage=stage,
            name=name,
            partition=partition,
            changed=name in changing,
            claimed_modified=None if not name else i % 8 != 1,
            seconds=0.01,
        )
        for i, name in enumerate(names)
    )


ENVIRONMENT = Environment(
    qnndbg="0.1.0",
    python="3.11.9",
    host="Linux x86_64",
    packages={"torchao": "0.18.0", "torch": "2.13.0", "executorch": "1.5.1", "onnxruntime-qnn": "2.5.0"},
    qnn_build="v2.49.40.260303142536",
    sdk="pip",
)

FUSED = {"aten_convolution_default@0"}
"""What the HTP fuses with the op behind it."""
MIXED = """\
input_0_x_0@0 | quantize_per_tensor | | | 200 | 0 | 0 | 200 | 0 | 0 | 0
aten_permute_copy_default@0 | aten.permute_copy.default | | | 200 | 0 | 0 | 200 | 0 | 0 | 0
aten_convolution_default@0 | aten.convolution.default | stem | net.py:20 | 92.1 | 2 | 1.1 | 92.1 | 2 | 1.1 | 0.004
aten_hardswish_default@0 | aten.hardswish.default | stem_act | net.py:21 | 41.2 | 2519 | 94 | 91.7 | 2 | 0.9 | -0.012
aten_convolution_default_1@0 | aten.convolution.default | mix | net.py:22 | 48.3 | 370 | 61 | 95.0 | 1 | 1 | 0
aten_hardtanh_default@0 | aten.hardtanh.default | mix_act | net.py:23 | 49.0 | 706 | 58 | 98.7 | 1 | 1 | 0
aten_add_tensor@0 | aten.add.Tensor | | net.py:24 | 47.9 | 640 | 66 | 97.2 | 1 | 0.8 | 0.002
aten_mean_dim@0 | aten.mean.dim | encoder.layers.0.pool.reduce | net.py:25 | 60.2 | 88 | 12 | 99.9 | 1 | 0.7 | 0
aten_gelu_default@0 | aten.gelu.default | head_act | net.py:26 | 55.4 | 133 | 39 | 61.7 | 73 | 21.4 | 0.982
aten_native_layer_norm_default@0 | aten.native_layer_norm.default | norm | net.py:27 | 52.3 | 101 | 47 | 90.6 | 1.9 | 3.2 | 0.021
aten_view_copy_default@0 | aten.view_copy.default | | net.py:28 | 52.3 | 101 | 47 | 200 | 0 | 0 | 0
output_aten_linear_default@0 | aten.linear.default | head | net.py:29 | 24.9 | 97 | 77 | 93.3 | 1.2 | 1 | 0.003"""  # noqa: E501 a row is a line


@pytest.fixture
def mixed() -> Recorded:
    """16a8w: two inexact activations, whose errors every later layer inherits."""
    rows = (
        *layers(MIXED, "UFIXED_POINT_16", "lsb"),
        uncompared("aten_permute_copy_default_1@0", "aten.permute_copy.default", "not dumped"),
    )
    reasons = {"not dumped": 1}
    coverage = Coverage(
        compared=12,
        total=13,
        reasons=reasons,
        given={"weight: held, not computed": 6, "graph input: both sides are given it": 1},
    )
    ladder = rungs(
        0,
        ("annotation", 200.0, 200.0, ""),
        ("quantized", 64.1, 64.1, ""),
        ("export", 64.1, 200.0, ""),
        ("edge", 64.1, 200.0, ""),
        ("transform", 64.1, 200.0, ""),
        ("reference", 64.1, 142.0, ""),
        ("htp-tapped", 24.9, 25.0, ""),
        ("htp", 24.9, 200.0, ""),
        ("htp-given", 24.9, 200.0, ""),
    )
    beyond = "its error is {} times what rounding explains"
    found = (
        source(rows[8], 0.982, 21.4, cause="kernel", detail=beyond.format(21)),
        source(rows[9], 0.021, 3.2, cause="kernel", detail=beyond.format(3)),
    )
    manifest = Manifest(
        target="mixed.py:net",
        precision="16a8w",
        soc="SM8650",
        environment=ENVIRONMENT,
        complete=True,
        inputs=(
            Input(name="x", tensor=TensorRef("0" * 32, "float32", (1, 3, 16, 16)), note="made contiguous"),
        ),
        notes=(
            "two of the 360 calibration samples are also evaluation samples, which flatters the accuracy",
        ),
        accuracy=Accuracy(samples=360, correct={"eager": 352, "quantized": 351, "htp": 343}),
    )
    passes = (
        *events(
            "annotation", 37, "DecomposeAny", "ReduceDynamicRange", "RecomposeRmsNorm", "ConvertSquareToPow"
        ),
        *events("export", 20, "DecomposeLinalgVectorNorm", "I64toI32"),
        *events("transform", 35, "AnnotateQuantAttrs", "FoldQDQ", "FixedLinearKeepDim", "LayoutTransform"),
        *events("preprocess", 6, "FoldQDQ", "InsertRequantize", partition=0),
        *events("preprocess", 6, "FoldQDQ", partition=1),
    )
    return Recorded(manifest, compared(ladder, rows, coverage, "16a8w", found), passes)


def compared(
    ladder: tuple[Rung, ...],
    rows: tuple[LayerResult, ...],
    coverage: Coverage,
    precision: str,
    found: tuple[Source, ...],
) -> Comparison:
    """The answer that this evidence gets."""
    verdict = judge(
        Evidence(ladder=ladder, layers=rows, coverage=coverage, precision=precision, sources=found)
    )
    return Comparison(verdict=verdict, ladder=ladder, layers=rows, coverage=coverage, sources=found)


OVERFLOW = """\
aten_linear_default@0 | aten.linear.default | up | net.py:11 | 71.3 | 9.4 | 1.2 | 71.3 | 9.4 | 1.2 | 0
aten_mul_tensor@0 | aten.mul.Tensor | | net.py:12 | 0.2 | 4012.7 | 5.1e6 | 0.2 | 4012.7 | 5.1e6 | 0.997
aten_relu_default@0 | aten.relu.default | act | net.py:13 | 0.2 | 4012.7 | 5.1e6 | 200 | 0 | 0 | 0
aten_mul_tensor_1@0 | aten.mul.Tensor | | net.py:14 | 0.2 | 2300000 | 7e5 | 88.0 | 0.5 | 0.4 | 0
output_aten_linear_default_1@0 | aten.linear.default | down | net.py:15 | 2.6 | 51000.2 | 900 | 74.0 | 3.3 | 0.9 | 0.003"""  # noqa: E501 a row is a line


@pytest.fixture
def overflow() -> Recorded:
    """fp16: one multiplication beyond 65504; three outputs, of which one is no tensor of the HTP."""
    rows = layers(OVERFLOW, "FLOAT_16", "ulp")
    coverage = Coverage(compared=5, total=5, reasons={})
    shape = Rung(
        name="htp", output=2, against_eager=None, against_previous=None, note="shape (2, 1), not (2,)"
    )

    def cpu(reference: float) -> list[tuple[str, float, float, str]]:
        equal = [(name, 200.0, 200.0, "") for name in ("export", "edge", "transform")]
        return [*equal, ("reference", reference, reference, "")]

    ladder = (
        *rungs(0, *cpu(131.5), ("htp-tapped", 2.6, 2.6, "")),
        *rungs(1, *cpu(200.0), ("htp-tapped", 71.0, 71.0, "")),
        *rungs(2, *cpu(200.0)),
        shape,
    )
    manifest = Manifest(
        target="overflow.py:net", precision="fp16", soc="SM8550", environment=ENVIRONMENT, complete=True
    )
    overflows = "values reach 1.31e+05, and half floats end at 65504"
    found = (source(rows[1], 0.997, 5.1e6, cause="overflow", detail=overflows),)
    return Recorded(manifest, compared(ladder, rows, coverage, "fp16", found), ())


@pytest.fixture
def failed() -> Recorded:
    """The HTP refused an op, so that the recording ends with the passes."""
    manifest = Manifest(
        target="example:digits",
        precision="16a4w",
        soc="SM8350",
        environment=ENVIRONMENT,
        failure=Failure(
            step="lower",
            error="the HTP refuses aten.grid_sampler_2d.default: [bilinear] is not supported on V68",
            hint="keep the op on the CPU, or record with another --soc",
        ),
    )
    passes = (
        *events("annotation", 37, "DecomposeAny"),
        PassEvent(index=40, stage="export", name="DecomposeEinsum", error="KeyError: 'val'"),
    )
    return Recorded(manifest, None, passes)
