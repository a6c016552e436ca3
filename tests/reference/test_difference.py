"""Where numbers begin to differ behind a pass, on graphs whose damage is known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from qnndbg.execute.difference import Ran, first_difference
from qnndbg.execute.reference import evaluate
from qnndbg.model.graph import Graph, Node, Output, Ref, Seq, TensorRef

X = torch.tensor([[9.0, -2.0], [3.0, 14.0]])
WEIGHT, ROLLED = torch.tensor([[5.0, 6.0], [7.0, 8.0]]), torch.tensor([[7.0, 8.0], [5.0, 6.0]])
STORED: Mapping[str, torch.Tensor] = {"weight": WEIGHT, "rolled": ROLLED}


def call(name: str, op: str, *args: object) -> Node:
    return Node(name=name, op="call_function", target=op, args=args)  # type: ignore[arg-type]


def graph(*calls: Node, weight: str = "weight") -> Graph:
    held = TensorRef(weight, "float32", (2, 2))
    return Graph(
        nodes=(
            Node(name="x", op="placeholder", role="input"),
            Node(name="w", op="placeholder", role="parameter", constant=held),
            *calls,
        ),
        outputs=(Output(value=Ref(calls[-1].name)),),
    )


def load(ref: TensorRef) -> torch.Tensor:
    return STORED[ref.digest]


def ran(made: Graph) -> Ran:
    return Ran(made, evaluate(made, [X], load).values)


SUB = call("sub", "aten.sub.Tensor", Ref("x"), Ref("w"))
RELU = call("relu", "aten.relu.default", Ref("sub"))
NEG = call("neg", "aten.neg.default", Ref("relu"))
BEFORE = graph(SUB, RELU, NEG)


@pytest.mark.parametrize(
    ("after", "named"),
    [
        (graph(call("sub", "aten.sub.Tensor", Ref("w"), Ref("x")), RELU, NEG), "sub"),
        (graph(SUB, call("relu", "aten.abs.default", Ref("sub")), NEG), "relu"),
        (graph(SUB, RELU, NEG, weight="rolled"), "w"),
        (
            graph(
                SUB,
                call("made", "aten.mul.Tensor", Ref("sub"), 2.0),
                call("relu", "aten.relu.default", Ref("made")),
                NEG,
            ),
            "made",
        ),
        (graph(SUB, RELU, call("neg", "aten.neg.default", Ref("x"))), "neg"),
        (BEFORE, ""),
    ],
    ids=["operands swapped", "another op", "another constant", "an op put in", "rewired", "nothing"],
)
def test_the_node_that_was_damaged_is_named(after: Graph, named: str) -> None:
    found = first_difference(ran(BEFORE), ran(after), load, lambda a, b: not torch.equal(a, b))

    assert found == named


def test_a_transpose_on_the_way_is_no_difference() -> None:
    after = graph(
        SUB,
        call("turned", "aten.permute_copy.default", Ref("sub"), Seq((1, 0))),
        call("back", "aten.permute_copy.default", Ref("turned"), Seq((1, 0))),
        call("relu", "aten.relu.default", Ref("back")),
        call("neg", "aten.abs.default", Ref("relu")),
    )

    assert first_difference(ran(BEFORE), ran(after), load, lambda a, b: not torch.equal(a, b)) == "neg"
