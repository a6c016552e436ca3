"""What cannot be evaluated is a problem of its node and of those that need it, and never an exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from qnndbg.execute.reference import Computed, Walk, evaluate
from qnndbg.model.graph import (
    Arg,
    Atom,
    Graph,
    Node,
    Output,
    QuantParams,
    Ref,
    Seq,
    Slice,
    TensorRef,
    TensorSpec,
)

F32 = TensorSpec((2,), "float32")
X = torch.tensor([1.0, -2.0])
INPUT = Node(name="x", op="placeholder", role="input", outputs=(F32,))
UINT8 = QuantParams(scales=(0.5,), zero_points=(0,), qmin=0, qmax=255, dtype="uint8")


def call(name: str, target: str, *args: Arg, **fields: Any) -> Node:
    return replace(Node(name=name, op="call_function", target=target, args=args, outputs=(F32,)), **fields)


def no_tensor(ref: TensorRef) -> torch.Tensor:
    raise AssertionError(f"{ref} was loaded")


def walk_around(bad: Node, **options: Any) -> Walk:
    """Evaluate a bad node, one that needs it, one that needs that, and one that needs neither."""
    nodes = (
        INPUT,
        bad,
        call("user", "aten.relu.default", Ref(bad.name)),
        call("last", "aten.add.Tensor", Ref("x"), Ref("user")),
        call("other", "aten.neg.default", Ref("x")),
    )
    outputs = tuple(Output(value=Ref(name)) for name in ("last", "other"))
    return evaluate(Graph(nodes=nodes, outputs=outputs), [X], no_tensor, **options)


def deep() -> Arg:
    arg: Arg = 1
    for _ in range(3000):
        arg = Seq((arg,))
    return arg


BAD: dict[str, tuple[Node, str]] = {
    "unknown namespace": (call("bad", "os.system", "true"), "os.system is not in a known operator namespace"),
    "random numbers": (call("bad", "aten.rand_like.default", Ref("x")), "it draws random numbers"),
    "unknown operator": (call("bad", "aten.nothing.default", Ref("x")), "not in a known operator namespace"),
    "unknown quantise operator": (
        call("bad", "evil.quantize_this.default", Ref("x")),
        "not in a known operator namespace",
    ),
    "method": (
        Node(name="bad", op="call_method", target="numpy"),
        "call_method numpy is not a graph operator",
    ),
    "module": (
        Node(name="bad", op="call_module", target="m", outputs=(F32,)),
        "call_module m is not a graph operator",
    ),
    "opaque argument": (
        call("bad", "aten.relu.default", Atom("opaque", "Mystery")),
        "its argument Mystery (opaque) has no value outside of the lowering",
    ),
    "symbol": (
        call("bad", "aten.relu.default", Atom("symbol", "s0")),
        "its argument s0 (symbol) has no value",
    ),
    "function for a dtype": (
        call("bad", "aten.relu.default", Atom("dtype", "load")),
        "its argument load (dtype)",
    ),
    "path for a dtype": (
        call("bad", "aten.relu.default", Atom("dtype", "os.system")),
        "its argument os.system (dtype)",
    ),
    "no float": (call("bad", "aten.relu.default", Atom("float", "seven")), "seven"),
    "opaque in a list": (
        call("bad", "aten.cat.default", Seq((Ref("x"), Slice(None, Atom("opaque", "Mystery"), None)))),
        "its argument Mystery (opaque)",
    ),
    "opaque keyword": (call("bad", "aten.relu.default", Ref("x"), kwargs={"out": Atom("opaque", "M")}), "M"),
    "missing argument": (call("bad", "aten.add.Tensor", Ref("x")), "missing value for argument 'other'"),
    "unknown keyword": (
        call("bad", "aten.relu.default", Ref("x"), kwargs={"y": 1}),
        "expected at most 1 argument(s)",
    ),
    "wrong type": (call("bad", "aten.relu.default", "text"), "Expected a value of type 'Tensor'"),
    "wrong shape": (call("bad", "aten.view.default", Ref("x"), Seq((7,))), "invalid for input of size 2"),
    "bad index": (call("bad", "operator.getitem", Seq((1,)), 4), "list index out of range"),
    "nested too deeply": (call("bad", "aten.relu.default", deep()), "recursion"),
}


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=BAD)
def test_problem_of_a_node_and_of_those_that_need_it(bad: Node, reason: str) -> None:
    walk = walk_around(bad)
    assert set(walk.problems) == {"bad", "user", "last"}
    assert reason in walk.problems["bad"]
    assert "\n" not in walk.problems["bad"]
    assert walk.problems["user"] == "its input bad was not evaluated"
    assert walk.problems["last"] == "its input user was not evaluated"
    assert walk.results[0] is None
    assert walk.results[1].tolist() == [-1.0, 2.0]
    assert set(walk.values) == {("other", 0)}


def test_value_put_in_for_what_could_not_be_computed_ends_the_problem_there() -> None:
    def put(computed: Computed) -> torch.Tensor | None:
        if computed.node.name != "bad":
            return computed.value
        assert (computed.output, computed.value, computed.exact) == (0, None, None)
        return torch.tensor([5.0, -5.0])

    walk = walk_around(call("bad", "os.system", "true"), replace=put)
    assert set(walk.problems) == {"bad"}
    assert walk.results[0].tolist() == [6.0, -2.0]


def test_outputs_of_an_op_that_failed_are_missing_one_by_one() -> None:
    bad = call("bad", "aten.nothing.default", Ref("x"), multiple=True, outputs=(F32, F32))
    picked = [call(f"get{i}", "operator.getitem", Ref("bad"), i) for i in (0, 1)]
    users = [call(f"user{i}", "aten.relu.default", Ref(f"get{i}")) for i in (0, 1)]
    outputs = tuple(Output(value=Ref(u.name)) for u in users)
    whole = Graph(nodes=(INPUT, bad, *picked, *users), outputs=outputs)
    walk = evaluate(whole, [X], no_tensor)
    assert walk.results == [None, None]
    assert {"bad", "user0", "user1"} <= set(walk.problems)
    second = ("bad", 1)
    half = evaluate(
        whole, [X], no_tensor, replace=lambda c: X if (c.node.name, c.output) == second else c.value
    )
    assert half.results[0] is None
    assert half.results[1].tolist() == [1.0, 0.0]
    assert "user1" not in half.problems


@pytest.mark.parametrize("role", ["parameter", "buffer", "constant", "state"])
def test_constant_that_was_not_recorded_is_a_problem_of_its_users(role: str) -> None:
    walk = walk_around(Node(name="bad", op="placeholder", role=role))  # type: ignore[arg-type]
    assert walk.problems == {
        "user": "its input bad was not evaluated",
        "last": "its input user was not evaluated",
    }


HOSTILE: dict[str, Node] = {
    "reference to no node": call("bad", "aten.relu.default", Ref("nobody")),
    "delegate that is no node": call("bad", "higher_order.executorch_call_delegate", Ref("nobody")),
    "dequantised number": call(
        "bad", "quantized_decomposed.dequantize_per_tensor.default", 3, 1.0, 0, 0, 255, Atom("dtype", "uint8")
    ),
    "division by zero": call("bad", "operator.truediv", 1, 0),
    "overflow": call("bad", "operator.pow", 2.5, 100_000),
    "encoding of an unknown dtype": call(
        "bad", "aten.relu.default", Ref("x"), encoding=replace(UINT8, dtype="nonsense")
    ),
    "encoding without a scale": call(
        "bad", "aten.relu.default", Ref("x"), encoding=replace(UINT8, scales=(), zero_points=())
    ),
    "encoding of a scale of zero": call(
        "bad", "aten.relu.default", Ref("x"), encoding=replace(UINT8, scales=(0.0,))
    ),
    "encoding along an axis that is not there": call(
        "bad", "aten.relu.default", Ref("x"), encoding=replace(UINT8, scheme="per_channel", axis=7)
    ),
    "encoding in blocks of nothing": call(
        "bad", "aten.relu.default", Ref("x"), encoding=replace(UINT8, scheme="per_block", block_size=(0,))
    ),
    "axis order that is no permutation": call("bad", "aten.ones.default", Seq((2,)), axis_order=(3,)),
}


@pytest.mark.parametrize("bad", HOSTILE.values(), ids=HOSTILE)
def test_hostile_node_is_a_problem_too(bad: Node) -> None:
    nodes = (INPUT, bad, call("other", "aten.neg.default", Ref("x")))
    whole = Graph(nodes=nodes, outputs=(Output(value=Ref("other")),), stored_layout=bool(bad.axis_order))
    walk = evaluate(whole, [X], no_tensor)
    assert set(walk.problems) == {"bad"}
    assert walk.results[0].tolist() == [-1.0, 2.0]


def test_input_that_is_missing_is_a_problem_of_its_users() -> None:
    whole = Graph(
        nodes=(INPUT, call("neg", "aten.neg.default", Ref("x"))), outputs=(Output(value=Ref("neg")),)
    )
    walk = evaluate(whole, [], no_tensor)
    assert (walk.problems, walk.results) == ({"neg": "its input x was not evaluated"}, [None])


def test_recording_cannot_write_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_bytes(b"precious")
    mapped = call("m", "aten.from_file.default", str(file), True, 8, kwargs={"dtype": Atom("dtype", "uint8")})
    evaluate(Graph(nodes=(mapped, call("f", "aten.fill_.Scalar", Ref("m"), 65)), outputs=()), [], no_tensor)
    assert file.read_bytes() == b"precious"


def test_value_is_noted_as_it_was_computed() -> None:
    relu, add = call("relu", "aten.relu.default", Ref("x")), call("add", "aten.add_.Tensor", Ref("relu"), 1.0)
    walk = evaluate(Graph(nodes=(INPUT, relu, add), outputs=()), [X], no_tensor)
    assert walk.values["add", 0].tolist() == [2.0, 1.0]
    assert walk.values["relu", 0].tolist() == [1.0, 0.0]


def test_inputs_stay_as_they_were() -> None:
    x = X.clone()
    evaluate(Graph(nodes=(INPUT, call("add", "aten.add_.Tensor", Ref("x"), 1.0)), outputs=()), [x], no_tensor)
    assert x.tolist() == X.tolist()
