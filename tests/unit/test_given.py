"""What no op computes: inputs and constants in made recordings, and how they are counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.analyze.values import absence, values_of
from qnndbg.model.graph import Graph, Node, Ref
from qnndbg.model.recording import Held, QnnGraph, QnnOp, QnnTensor, Run, Value
from qnndbg.model.result import MAX_SQNR_DB, Comparison, Counted, LayerResult
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from tests.unit.recordings import manifest, node

WEIGHT = np.array([1.0, 2.0, 2.0], np.float32)
FLUSHED = np.array([1.0, 2.0, 0.0], np.float32)
"""Of 9 units of energy 4 are lost: 3.52 dB."""


class Made:
    """A partition that multiplies an input with a constant, which is held in some way."""

    def __init__(self, folder: Path, precision: str = "fp16") -> None:
        self.writer = Writer(folder)
        self.writer.manifest(manifest(precision))
        self.weight = QnnTensor(
            name="w@0", kind="static", dtype="FLOAT_32", shape=(3,), node="w", held=Held()
        )
        self.input = QnnTensor(name="x@0", kind="input", dtype="FLOAT_32", shape=(3,), node="x")

    def compared(
        self,
        *,
        held: Mapping[str, tuple[np.ndarray, np.ndarray | None]] | None = None,
        floor: float = 0.1,
        problems: dict[str, str] | None = None,
        role: str = "input",
        looked: bool = True,
    ) -> Comparison:
        """Compare it.

        Args:
            held: QNN tensor to what the graph has and what the HTP holds, where that differs by more than
                rounding.
            floor: of these.
            problems: of the run that holds them.
            role: of the input.
            looked: what the HTP holds was looked at.
        """
        writer, held = self.writer, held or {}
        constant = writer.tensor(WEIGHT)
        nodes = (
            Node(name="w", op="placeholder", role="parameter", constant=constant),
            Node(name="x", op="placeholder", role=role, constant=constant if role == "state" else None),  # type: ignore[arg-type]
            node("mul", "aten.mul.Tensor", args=(Ref("x"), Ref("w"))),
        )
        output = QnnTensor(name="mul@0", kind="output", dtype="FLOAT_32", shape=(3,), node="mul")
        op = QnnOp(name="mul", type="ElementWiseMultiply", package="", inputs=(), outputs=("mul@0",))
        graph = QnnGraph(
            method="forward",
            partition=0,
            graph=writer.graph(Graph(nodes=nodes, outputs=())),
            ops=(op,),
            tensors=(self.input, self.weight, output),
        )
        writer.qnn_graph(graph)
        value = Value(name="mul@0", partition=0, tensor=constant)
        known = [
            replace(value, name=name, tensor=writer.tensor(graphs), floor=floor)
            for name, (graphs, _) in held.items()
        ]
        values = [
            replace(value, name=name, tensor=writer.tensor(htps))
            for name, (_, htps) in held.items()
            if htps is not None
        ]
        writer.run(Run(runner="reference", values=(value,)))
        writer.run(Run(runner="local", values=(value, *known)))
        writer.run(Run(runner="htp-tapped", values=(value,)))
        if looked:
            writer.run(Run(runner="held", values=tuple(values), problems=problems or {}))
        return compare(open_recording(writer.folder))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def of(comparison: Comparison, name: str) -> LayerResult:
    (layer,) = (layer for layer in comparison.layers if layer.tensor == name)
    return layer


def test_what_is_held_as_it_is_has_no_error(made: Made) -> None:
    comparison = made.compared()
    for name, given in (("w@0", "constant"), ("x@0", "input")):
        layer = of(comparison, name)
        assert (layer.given, layer.reason, layer.accumulated, layer.excess) == (given, "", None, 0.0)
        assert layer.local is not None
        assert (layer.local.sqnr_db, layer.local.mismatched, layer.local.elements) == (MAX_SQNR_DB, 0, 3)


def test_they_are_counted_apart(made: Made) -> None:
    coverage = made.compared(held={"w@0": (WEIGHT, FLUSHED)}).coverage
    assert (coverage.compared, coverage.total, coverage.given) == (1, 1, {})
    assert (coverage.constants, coverage.inputs) == (Counted(same=0, total=1), Counted(same=1, total=1))


@pytest.mark.parametrize("name", ["w@0", "x@0"])
def test_what_is_lost_is_a_local_error(made: Made, name: str) -> None:
    layer = of(made.compared(held={name: (WEIGHT, FLUSHED)}), name)
    assert layer.local is not None
    assert layer.local.sqnr_db == pytest.approx(10 * np.log10(9 / 4))
    assert layer.local.max_abs == 2.0
    assert layer.excess == pytest.approx(np.sqrt(4 / 3) / 0.1)


def test_what_rounding_explains_is_held_as_it_is(made: Made) -> None:
    comparison = made.compared(held={"w@0": (WEIGHT, FLUSHED)}, floor=0.5)
    assert comparison.coverage.constants == Counted(same=1, total=1)


def test_a_constant_stands_where_the_op_stands_that_reads_it(made: Made) -> None:
    comparison = made.compared()
    assert of(comparison, "w@0").module == of(comparison, "mul@0").module


def test_a_state_has_no_start_value_to_compare(made: Made) -> None:
    comparison = made.compared(role="state")
    layer = of(comparison, "x@0")
    assert (layer.given, layer.local) == ("state", None)
    assert comparison.coverage.given == {"state: the program has no start value of it": 1}
    assert comparison.coverage.inputs == Counted()


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        ({"held": Held(problem="its encoding X is not known")}, "its encoding X is not known"),
        ({"held": None}, "what QNN was given was not seen"),
        ({"node": ""}, "constant that a builder makes; the graph has none for it"),
    ],
)
def test_a_constant_that_cannot_be_compared_says_why(
    made: Made, tensor: dict[str, object], reason: str
) -> None:
    made.weight = replace(made.weight, **tensor)
    comparison = made.compared()
    assert of(comparison, "w@0").reason == reason
    assert comparison.coverage.given == {reason: 1}
    assert comparison.coverage.constants == Counted(same=0, total=1)


def test_an_input_that_could_not_be_evaluated_says_so(made: Made) -> None:
    comparison = made.compared(problems={"x@0": "the CPU could not evaluate it"})
    assert of(comparison, "x@0").reason == "the CPU could not evaluate it"


def test_where_nobody_looked_nothing_is_counted(made: Made) -> None:
    coverage = made.compared(looked=False).coverage
    assert (coverage.inputs, coverage.constants) == (Counted(), Counted())
    assert set(coverage.given) == {
        "graph input: both sides are given it",
        "weight: held, not computed",
    }


def test_what_half_floats_only_round_is_not_stored(made: Made) -> None:
    value = np.array([0.1, -3.3, 70.7], np.float32)
    layer = of(made.compared(held={"w@0": (value, None)}), "w@0")
    rounded = value.astype(np.float16).astype(np.float64)
    assert layer.local is not None
    assert layer.local.max_abs == np.abs(rounded - value).max()
    assert layer.local.max_ulp is not None
    assert layer.local.max_ulp <= 0.5


def test_the_steps_of_half_floats_are_given_in_half_precision_only(tmp_path: Path) -> None:
    pair = {"w@0": (WEIGHT, FLUSHED)}
    for precision, known in (("fp16", True), ("16a8w", False)):
        layer = of(Made(tmp_path / precision, precision).compared(held=pair), "w@0")
        assert layer.local is not None
        assert (layer.local.max_ulp is not None) == known


def test_values_are_those_of_the_graph_rounded_where_no_more_is_lost(made: Made) -> None:
    third = np.array([1 / 3, 70000.0, 1e-9], np.float32)
    layer = of(made.compared(held={"w@0": (third, None)}), "w@0")
    values = values_of(open_recording(made.writer.folder), layer)
    assert values is not None
    assert values.reference is None
    assert values.local is not None
    assert values.local.tolist() == third.tolist()
    assert values.target.tolist() == [float(np.float16(1 / 3)), 70016.0, 0.0]  # a step of 64 from 65536 on


def test_what_is_held_as_it_is_has_no_values_of_its_own(tmp_path: Path) -> None:
    made = Made(tmp_path, precision="8a8w")
    layer = of(made.compared(), "w@0")
    assert values_of(open_recording(tmp_path), layer) is None
    assert absence(layer) == "the HTP holds it as the graph has it"
