"""The comparison of hand-made recordings whose errors, gaps and units are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.model.attribution import Attribution, Effect
from qnndbg.model.graph import Node, Origin, QuantParams, Ref, TensorSpec
from qnndbg.model.recording import Fallback, Method
from qnndbg.model.result import Coverage, ErrorMetrics, LayerResult
from qnndbg.recording.store import open_recording
from tests.unit.recordings import F32, HALF, Maker, Tensor, node, raw, real

NO_OP = "no op computes it"
RAW = raw(10, 12, 20)
"""Zero, one and five in the encoding ``HALF``."""
EXACT = real(0, 1, 5)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def compare_one(maker: Maker, tensor: Tensor, extra: Sequence[Node] = ()) -> LayerResult:
    maker.partition(0, [tensor], extra)
    (layer,) = maker.compared().layers
    return layer


def equal(elements: int = 3, *, lsb: float | None = 0.0, ulp: float | None = None) -> ErrorMetrics:
    return ErrorMetrics(
        sqnr_db=200.0,
        max_abs=0.0,
        mean_abs=0.0,
        relative_l2=0.0,
        cosine=1.0,
        max_lsb=lsb,
        max_ulp=ulp,
        rms_abs=0.0,
        mismatched=0,
        nonfinite=0,
        elements=elements,
    )


def test_layer_holds_all_that_is_known_of_it(maker: Maker) -> None:
    origin = Origin(
        module_path="block.0", module_class="ReLU", source="net.py:7", created_by="InsertRequantize"
    )
    other = replace(HALF, scales=(0.25,))
    relu = node("relu", origin=origin, encoding=other)
    tensor = Tensor(name="relu@0", made_by=relu, htp=RAW, reference=EXACT, local=EXACT)
    assert compare_one(maker, tensor) == LayerResult(
        tensor="relu@0",
        method="forward",
        partition=0,
        op="aten.relu.default",
        qnn_op="Relu",
        module="block.0",
        source="net.py:7",
        created_by="InsertRequantize",
        shape=(3,),
        dtype="UFIXED_POINT_8",
        reference_dtype="float32",
        encoding=HALF,
        reference_encoding=other,
        accumulated=equal(),
        local=equal(),
        reason="",
    )


def test_errors_are_counted_in_steps_of_the_tensors_own_encoding(maker: Maker) -> None:
    coarse = replace(HALF, scales=(100.0,))
    tensor = Tensor(
        name="relu@0",
        made_by=node("relu", encoding=coarse),
        htp=RAW,
        reference=real(0, 1, 2),
        local=real(0, 1.5, 5),
    )
    layer = compare_one(maker, tensor)
    assert layer.accumulated is not None
    assert layer.local is not None
    assert (layer.accumulated.max_lsb, layer.accumulated.max_abs, layer.accumulated.mismatched) == (
        6.0,
        3.0,
        1,
    )
    assert (layer.local.max_lsb, layer.local.max_abs, layer.local.max_ulp) == (1.0, 0.5, None)


def test_errors_per_channel_are_counted_in_each_channels_steps(maker: Maker) -> None:
    encoding = QuantParams(
        scheme="per_channel",
        scales=(0.5, 8.0),
        zero_points=(0, 1),
        qmin=0,
        qmax=255,
        dtype="uint8",
        axis=1,
    )
    htp = np.array([[2, 3], [4, 1]], np.uint8)  # 1 and 16, 2 and 0
    tensor = Tensor(
        name="c@0",
        made_by=node("c"),
        encoding=encoding,
        htp=htp,
        reference=np.array([[1, 8], [0, 0]], np.float32),
    )
    layer = compare_one(maker, tensor)
    assert layer.accumulated is not None
    assert (layer.accumulated.max_lsb, layer.accumulated.max_abs) == (4.0, 8.0)
    assert layer.local is None


def test_dequantised_value_is_counted_in_steps_of_what_it_was_made_of(maker: Maker) -> None:
    relu = node("relu", encoding=HALF)
    back = node("back", "quantized_decomposed.dequantize_per_tensor.default", args=(Ref("relu"), 0.5, 10))
    tensor = Tensor(
        name="back@0",
        made_by=back,
        dtype="FLOAT_32",
        encoding=None,
        htp=real(0, 1, 5),
        reference=real(0, 1, 6),
    )
    layer = compare_one(maker, tensor, [relu])
    assert layer.accumulated is not None
    assert (layer.accumulated.max_lsb, layer.accumulated.max_ulp) == (2.0, None)
    assert (layer.encoding, layer.reference_encoding) == (None, None)


def test_floats_are_counted_in_ulps_of_half_floats_and_integers_in_neither(maker: Maker) -> None:
    half = Tensor(
        name="f@0",
        made_by=node("f"),
        dtype="FLOAT_16",
        encoding=None,
        htp=real(1024, 2, 3),
        reference=real(1027, 2, 3),
    )
    whole = Tensor(
        name="i@0",
        made_by=node("i"),
        dtype="INT_32",
        encoding=None,
        htp=np.array([1, 2, 4], np.int32),
        reference=np.array([1, 2, 3], np.int64),
    )
    maker.partition(0, [half, whole])
    errors = [layer.accumulated for layer in maker.compared().layers]
    assert [(e.max_ulp, e.max_lsb, e.max_abs) if e else None for e in errors] == [
        (3.0, None, 3.0),
        (None, None, 1.0),
    ]


@pytest.mark.parametrize(("precision", "nonfinite"), [("fp16", 0), ("16a8w", 1)])
def test_overflow_in_fp16_is_read_as_the_limit_and_elsewhere_is_infinite(
    tmp_path: Path, precision: str, nonfinite: int
) -> None:
    tensor = Tensor(
        name="mul@0",
        made_by=node("mul"),
        dtype="FLOAT_16",
        encoding=None,
        htp=real(np.inf, 1, 2),
        reference=real(131008, 1, 2),
    )
    layer = compare_one(Maker(tmp_path, precision), tensor)
    assert layer.accumulated is not None
    assert (layer.accumulated.nonfinite, layer.accumulated.mismatched) == (nonfinite, nonfinite)


@pytest.mark.parametrize(("reference", "htp"), [((), (1,)), ((1, 3), (3,)), ((3,), (1, 1, 3))])
def test_dimensions_of_one_do_not_part_the_sides(
    maker: Maker, reference: tuple[int, ...], htp: tuple[int, ...]
) -> None:
    tensor = Tensor(
        name="sum@0",
        made_by=node("sum"),
        htp=np.full(htp, 12, np.uint8),
        reference=np.ones(reference, np.float32),
    )
    layer = compare_one(maker, tensor)
    assert (layer.reason, layer.shape) == ("", htp)
    assert layer.accumulated == equal(max(1, int(np.prod(htp))))


def test_each_output_of_an_op_is_a_layer_with_its_own_encoding(maker: Maker) -> None:
    topk = node("topk", "aten.topk.default", multiple=True, outputs=(F32, TensorSpec((3,), "int64")))
    picked = node("values", "operator.getitem", args=(Ref("topk"), 0), encoding=HALF)
    maker.partition(
        0,
        [
            Tensor(name="topk@0", made_by=topk, op="TopK", htp=RAW, reference=EXACT),
            Tensor(
                name="topk@1",
                made_by=topk,
                op="TopK",
                output=1,
                dtype="INT_32",
                encoding=None,
                htp=np.array([2, 1, 0], np.int32),
                reference=np.array([2, 0, 1]),
            ),
        ],
        [picked],
    )
    values, indexes = maker.compared().layers
    assert (values.reference_encoding, indexes.reference_encoding) == (HALF, None)
    assert (values.reference_dtype, indexes.reference_dtype) == ("float32", "int64")
    assert values.accumulated == equal()
    assert indexes.accumulated is not None
    assert indexes.accumulated.mismatched == 2


RELU = node("relu")
GAPS = {
    "graph input: both sides are given it": Tensor(name="x", op="", kind="input", htp=RAW),
    "weight: held, not computed": Tensor(name="w", op="", kind="static"),
    "optional input that is left out": Tensor(name="n", op="", kind="null"),
    NO_OP: Tensor(name="s", op="", htp=RAW, reference=EXACT),
    "made inside the builder of Reshape; no graph node stands for it": Tensor(
        name="b", op="Reshape", htp=RAW, reference=EXACT
    ),
    "scratch tensor inside Relu": Tensor(name="relu@1", made_by=RELU, output=1, htp=RAW, reference=EXACT),
    "not dumped by the backend": Tensor(name="relu@0", made_by=RELU, reference=EXACT),
    "the CPU could not evaluate it: no such operator": Tensor(name="bad@0", made_by=node("bad"), htp=RAW),
    "the CPU could not evaluate it: no reason was noted": Tensor(name="odd@0", made_by=node("odd"), htp=RAW),
    "shape differs from the CPU's": Tensor(
        name="view@0", made_by=node("view"), htp=raw(10, 12, 14, 16), reference=EXACT
    ),
}
"""Tensors that cannot be compared, by the reason that must be given."""
PROBLEMS = {"bad": "no such operator"}


@pytest.mark.parametrize(("reason", "tensor"), GAPS.items(), ids=GAPS)
def test_what_cannot_be_compared_says_why(maker: Maker, reason: str, tensor: Tensor) -> None:
    maker.partition(0, [Tensor(name="good@0", made_by=node("good"), htp=RAW, reference=EXACT), tensor])
    comparison = maker.compared(PROBLEMS)
    layer = comparison.layers[-1]
    assert (layer.tensor, layer.reason) == (tensor.name, reason)
    assert (layer.accumulated, layer.local) == (None, None)
    assert comparison.coverage.compared == 1
    held = comparison.coverage.reasons if tensor.op else comparison.coverage.given
    assert held == {reason: 1}


def test_optional_input_of_either_kind_is_left_out(maker: Maker) -> None:
    layer = compare_one(maker, Tensor(name="o", op="", kind="optional"))
    assert layer.reason == "optional input that is left out"


def test_every_tensor_is_counted_once(maker: Maker) -> None:
    good = [Tensor(name=f"good{i}@0", made_by=node(f"good{i}"), htp=RAW, reference=EXACT) for i in range(3)]
    bad = list(GAPS.values())
    maker.partition(0, [*bad[:5], *good[:1], *bad[5:]])
    maker.partition(1, [*good, GAPS["weight: held, not computed"]])
    comparison = maker.compared(PROBLEMS)
    reasons = list(GAPS)
    assert comparison.coverage == Coverage(
        compared=4,
        total=10,
        reasons=dict.fromkeys(reasons[4:], 1),
        given=dict.fromkeys(reasons[:4], 1) | {"weight: held, not computed": 2},
    )
    assert comparison.coverage.share == 0.4
    assert len(comparison.layers) == len(bad) + len(good) + 2


def test_layers_are_in_the_order_of_partitions_and_their_ops(maker: Maker) -> None:
    def tensors(*names: str) -> list[Tensor]:
        given = Tensor(name="x", op="", kind="input")
        return [given, *(Tensor(name=n, made_by=node(n), htp=RAW, reference=EXACT) for n in names)]

    maker.partition(1, tensors("d"))
    maker.partition(0, tensors("c", "a", "b"))
    order = [(layer.partition, layer.tensor) for layer in maker.compared().layers]
    assert order == [(0, "c"), (0, "a"), (0, "b"), (0, "x"), (1, "d"), (1, "x")]


def test_tensors_of_one_name_in_two_partitions_are_kept_apart(maker: Maker) -> None:
    for number, off in ((0, 0.0), (1, 2.0)):
        relu = Tensor(name="relu@0", made_by=node("relu"), htp=RAW, reference=EXACT + np.float32(off))
        maker.partition(number, [relu])
    errors = [layer.accumulated for layer in maker.compared().layers]
    assert [e.max_lsb if e else None for e in errors] == [0.0, 4.0]


def test_value_that_only_the_local_run_has_is_compared(maker: Maker) -> None:
    layer = compare_one(maker, Tensor(name="relu@0", made_by=node("relu"), htp=RAW, local=EXACT))
    assert (layer.reason, layer.accumulated, layer.local) == ("", None, equal())


def test_without_a_tap_nothing_is_compared_and_nothing_is_clean(maker: Maker) -> None:
    tensor = Tensor(name="relu@0", made_by=node("relu"), reference=EXACT)
    maker.partition(0, [tensor, Tensor(name="w", op="", kind="static")])
    comparison = maker.compared()
    reason = "intermediates were not dumped"
    assert [layer.reason for layer in comparison.layers] == [reason, "weight: held, not computed"]
    assert (comparison.coverage.compared, comparison.coverage.share) == (0, 0.0)
    assert comparison.verdict.kind == "incomplete"


def test_tensors_of_one_name_in_two_methods_are_kept_apart(maker: Maker) -> None:
    for method, off in (("small", 0.0), ("large", 2.0)):
        relu = Tensor(name="relu@0", made_by=node("relu"), htp=RAW, reference=EXACT + np.float32(off))
        maker.partition(0, [relu], method=method)
    layers = {layer.method: layer.accumulated for layer in maker.compared().layers}
    assert {method: e and e.max_lsb for method, e in layers.items()} == {"large": 4.0, "small": 0.0}


def test_program_without_a_delegate_says_so(maker: Maker) -> None:
    kept = Fallback(node="relu", op="aten.relu.default", reason="on the caller's skip list")
    maker.writer.update_manifest(methods=(Method(name="forward", fallbacks=(kept,)),))
    comparison = maker.compared()
    assert (comparison.verdict.kind, comparison.verdict.culprit) == ("graph", "relu")
    assert comparison.verdict.text.startswith("graph: nothing was delegated to the HTP")
    assert "relu: on the caller's skip list" in comparison.verdict.text
    assert (comparison.layers, comparison.coverage.total) == ((), 0)


def test_root_of_the_mean_square_and_its_multiple_of_the_floor(maker: Maker) -> None:
    off = real(0.5, 1, 3)  # off by 0.5, 0 and 2 of RAW: mean square 4.25 / 3
    tensor = Tensor(name="relu@0", made_by=node("relu"), htp=RAW, reference=EXACT, local=off, floor=0.25)
    layer = compare_one(maker, tensor)
    assert layer.local is not None
    assert layer.local.rms_abs == pytest.approx((4.25 / 3) ** 0.5)
    assert (layer.floor, layer.inherited) == (0.25, 0.0)
    assert layer.excess == pytest.approx((4.25 / 3) ** 0.5 / 0.25)


def attribution(output: int, error: float, share: float, **fields: Any) -> Attribution:
    effect = Effect(kind="op", name="relu@0", node="relu", partition=0, error=0.5, floor=0.1, exact=share)
    made = Attribution(step="backend", method="forward", output=output, error=error, signal=1.0)
    return replace(made, effects=(replace(effect, **fields),))


def test_effect_is_that_on_the_output_which_the_backend_changes_most(maker: Maker) -> None:
    for found in (attribution(0, 0.1, 0.9), attribution(1, 0.5, 0.25, fused=True), attribution(2, 0.2, 0.8)):
        maker.writer.attribution(found)
    layer = compare_one(maker, Tensor(name="relu@0", made_by=node("relu"), htp=RAW, reference=EXACT))
    assert (layer.effect, layer.fused) == (0.25, True)


@pytest.mark.parametrize(
    ("half", "peak", "reads"), [(True, 7e4, True), (True, 6e4, False), (False, 7e4, False)]
)
def test_a_layer_that_reads_what_overflows_half_floats_is_known(
    maker: Maker, half: bool, peak: float, reads: bool
) -> None:
    maker.writer.attribution(attribution(0, 0.1, 0.9, half=half, peak=peak))
    behind = node("div", "aten.div.Tensor", args=(Ref("relu"), 2.0))
    tensors = [
        Tensor(name=f"{made.name}@0", made_by=made, htp=RAW, reference=EXACT)
        for made in (node("relu"), behind)
    ]
    maker.partition(0, tensors)
    assert [layer.overflowed for layer in maker.compared().layers] == [False, reads]


def test_sources_are_of_each_output_the_worst_one_first(maker: Maker) -> None:
    maker.partition(0, [Tensor(name="relu@0", made_by=node("relu"), htp=RAW, reference=EXACT)])
    for found in (attribution(0, 0.1, 0.9), attribution(1, 0.5, 0.25)):
        maker.writer.attribution(found)
    sources = maker.compared().sources
    assert [(s.output, s.share, s.cause) for s in sources] == [(1, 0.25, "kernel"), (0, 0.9, "kernel")]


def test_recording_that_ended_before_any_run(maker: Maker) -> None:
    comparison = compare(open_recording(maker.writer.folder))
    assert (comparison.layers, comparison.ladder, comparison.coverage.share) == ((), (), None)
    assert comparison.verdict.kind == "incomplete"
