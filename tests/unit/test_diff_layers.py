"""Layers and QNN ops of two hand-made recordings: which regressed, were fixed, are new or gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.analyze.diff.layers import trend
from qnndbg.analyze.diff.outputs import rung_diffs
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.model.diff import Diff, Trend
from qnndbg.model.graph import Graph
from qnndbg.model.result import MAX_SQNR_DB, Comparison, Coverage, ErrorMetrics, LayerResult, Rung, Verdict
from tests.unit.lowerings import call, edited, encoding, lowering, net, renamed


def error(
    db: float, *, lsb: float | None = None, ulp: float | None = None, nonfinite: int = 0
) -> ErrorMetrics:
    equal = db == MAX_SQNR_DB
    return ErrorMetrics(
        sqnr_db=db,
        max_abs=0.0 if equal else 1.0,
        mean_abs=0.0 if equal else 0.5,
        relative_l2=0.0 if equal else 0.1,
        cosine=1.0,
        max_lsb=lsb,
        max_ulp=ulp,
        mismatched=0 if equal else 3,
        nonfinite=nonfinite,
        elements=4,
    )


EQUAL = error(MAX_SQNR_DB, lsb=0.0)


def layer(
    node: str, local: ErrorMetrics | None, accumulated: ErrorMetrics | None, **fields: object
) -> LayerResult:
    made = LayerResult(
        tensor=f"{node}@0",
        method="forward",
        partition=0,
        op="aten.relu.default",
        qnn_op="Relu",
        module="",
        source="",
        created_by="",
        shape=(1, 4),
        dtype="UFIXED_POINT_8",
        reference_dtype="float32",
        encoding=None,
        reference_encoding=None,
        accumulated=accumulated,
        local=local,
        reason="",
    )
    return replace(made, **fields)


def compared_by(*layers: LayerResult, ladder: tuple[Rung, ...] = ()) -> Comparison:
    return Comparison(
        verdict=Verdict(kind="clean", text="", culprit="", next_step=""),
        ladder=ladder,
        layers=layers,
        coverage=Coverage(compared=1, total=1, reasons={}),
    )


def compared(
    folder: Path, graph_a: Graph, a: list[LayerResult], graph_b: Graph, b: list[LayerResult]
) -> Diff:
    sides = []
    for name, graph, layers in (("a", graph_a, a), ("b", graph_b, b)):
        steps = [("export", "", graph), ("preprocess", "", graph)]
        sides.append(lowering(folder / name, steps, comparison=compared_by(*layers), qnn=True))
    return diff_recordings(*sides)


CHAIN = net(
    call("r1", "relu", "x", encoding=encoding(0.1)),
    call("g", "gelu", "r1", encoding=encoding(0.2)),
    call("r2", "relu", "g", encoding=encoding(0.3)),
)
OTHER = {"r1": "relu", "g": "gelu", "r2": "relu_1"}


def test_layers_go_with_their_nodes_whatever_the_names_of_their_tensors(tmp_path: Path) -> None:
    good, bad = error(60.0, lsb=0.9), error(20.0, lsb=40.0)
    a = [layer("r1", good, good), layer("g", good, good), layer("r2", bad, bad)]
    b = [layer("relu", good, good), layer("gelu", bad, bad), layer("relu_1", good, bad)]
    diff = compared(tmp_path, CHAIN, a, renamed(CHAIN, OTHER), b)
    found = [(d.a and d.a.tensor, d.b and d.b.tensor, d.status) for d in diff.layers]
    assert found == [("g@0", "gelu@0", "regressed"), ("r2@0", "relu_1@0", "fixed")]
    assert diff.first_parting is not None
    assert (diff.first_parting.kind, diff.first_parting.what) == ("htp", "g@0")


def test_error_that_only_arrives_is_told_from_one_that_is_made(tmp_path: Path) -> None:
    a = [layer("r1", EQUAL, error(50.0, lsb=3.0))]
    b = [layer("r1", EQUAL, error(30.0, lsb=30.0))]
    (found,) = compared(tmp_path, CHAIN, a, CHAIN, b).layers
    assert (found.status, found.local, found.accumulated) == ("worse", "same", "worse")


def test_new_and_gone_layers(tmp_path: Path) -> None:
    good = error(60.0, lsb=0.9)
    shorter = net(*(node for node in CHAIN.nodes if node.name == "r1"))
    longer = [layer("r1", good, good), layer("g", good, good), layer("r2", good, good)]
    diff = compared(tmp_path, shorter, [layer("r1", good, good)], CHAIN, longer)
    assert [(d.status, d.b and d.b.tensor) for d in diff.layers] == [("new", "g@0"), ("new", "r2@0")]
    assert [(d.a, d.b and d.b.type) for d in diff.qnn] == [(None, "Gelu"), (None, "Relu")]
    assert [(c.what, c.a, c.b) for c in diff.sizes] == [("QNN ops", 1, 3)]


def test_qnn_op_with_another_encoding(tmp_path: Path) -> None:
    good = error(60.0, lsb=0.9)
    other = edited(CHAIN, "g", encoding=encoding(0.25))
    diff = compared(
        tmp_path, CHAIN, [layer("g", good, good)], renamed(other, OTHER), [layer("gelu", good, good)]
    )
    (found,) = diff.qnn
    assert found.a is not None
    assert found.b is not None
    assert (found.a.name, found.b.name) == ("g", "gelu")
    assert [(c.what, c.a, c.b) for c in found.changes] == [("scale", 0.2, 0.25)]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (EQUAL, EQUAL, "same"),
        (EQUAL, error(48.0, lsb=1.0), "same"),  # one step is rounding
        (EQUAL, error(48.0, lsb=2.0), "worse"),
        (error(48.0, lsb=2.0), EQUAL, "better"),
        (error(48.0, lsb=2.0), error(47.5, lsb=3.0), "same"),
        (error(48.0, lsb=2.0), error(46.0, lsb=3.0), "worse"),
        (error(72.0, ulp=0.5), error(66.0, ulp=300.0), "same"),  # of half floats, both are rounding
        (error(72.0, ulp=0.5), error(20.0, ulp=300.0), "worse"),
        (error(150.0), error(110.0), "same"),  # float32's own
        (error(48.0, lsb=2.0), error(48.0, lsb=2.0, nonfinite=1), "worse"),
        (None, None, "same"),
        (None, EQUAL, "unknown"),
    ],
)
def test_trend(a: ErrorMetrics | None, b: ErrorMetrics | None, expected: Trend) -> None:
    mirrored = {"worse": "better", "better": "worse"}
    assert trend(a, b) == expected
    assert trend(b, a) == mirrored.get(expected, expected)


def test_of_several_samples_a_rung_has_the_worst() -> None:
    def side(*decibels: float) -> Comparison:
        return compared_by(
            ladder=tuple(
                Rung(name="htp", output=0, sample=number, against_eager=error(db), against_previous=None)
                for number, db in enumerate(decibels)
            )
        )

    (rung,) = rung_diffs(side(40.0, 30.0, MAX_SQNR_DB), side(20.0, 30.0, 35.0))
    assert (rung.a, rung.b) == (error(30.0), error(20.0))
    assert rung_diffs(side(40.0, 30.0), side(40.0, 30.0)) == ()
