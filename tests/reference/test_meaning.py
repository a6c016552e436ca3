"""What a stored graph means: encodings, stored layouts, delegates, and values put in from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from torch.nn import functional

from qnndbg.execute.encoding import dequantise, fake_quantise
from qnndbg.execute.reference import Computed, Walk, evaluate
from qnndbg.model.graph import Arg, Atom, Graph, Node, Output, QuantParams, Ref, Seq, TensorRef, TensorSpec

COARSE = QuantParams(scales=(0.5,), zero_points=(10,), qmin=0, qmax=255, dtype="uint8")
FINE = QuantParams(scales=(0.001,), zero_points=(0,), qmin=0, qmax=65535, dtype="int32")
F32 = TensorSpec((2, 3, 4, 5), "float32")
X = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
INPUT = Node(name="x", op="placeholder", role="input", outputs=(F32,))
NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def call(name: str, target: str, *args: Arg, **fields: Any) -> Node:
    node = Node(name=name, op="call_function", target=target, args=args, outputs=(F32,))
    return replace(node, **fields)


def graph(*nodes: Node, results: Sequence[str] = (), **fields: Any) -> Graph:
    outputs = tuple(Output(value=Ref(name)) for name in results or (nodes[-1].name,))
    return replace(Graph(nodes=nodes, outputs=outputs), **fields)


class Held:
    """Tensors by the name of their reference."""

    def __init__(self, **tensors: torch.Tensor) -> None:
        self.tensors = tensors

    def ref(self, name: str) -> TensorRef:
        tensor = self.tensors[name]
        return TensorRef(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))

    def load(self, ref: TensorRef) -> torch.Tensor:
        return self.tensors[ref.digest]


NOTHING = Held()


def same(found: object, expected: torch.Tensor) -> None:
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_output_is_rounded_to_the_encoding_on_its_node() -> None:
    rounded = graph(INPUT, call("relu", "aten.relu.default", Ref("x"), encoding=COARSE))
    same(evaluate(rounded, [X], NOTHING.load).results[0], fake_quantise(X.relu(), COARSE))
    same(evaluate(rounded, [X], NOTHING.load, meaning="float").results[0], X.relu())


def test_folded_encodings_mean_what_explicit_operators_do() -> None:
    grid: tuple[Arg, ...] = (0.5, 10, 0, 255, Atom("dtype", "uint8"))
    explicit = graph(
        INPUT,
        call("q0", "quantized_decomposed.quantize_per_tensor.default", Ref("x"), *grid),
        call("d0", "quantized_decomposed.dequantize_per_tensor.default", Ref("q0"), *grid),
        call("mul", "aten.mul.Tensor", Ref("d0"), 0.3),
        call("q1", "quantized_decomposed.quantize_per_tensor.default", Ref("mul"), *grid),
        call("d1", "quantized_decomposed.dequantize_per_tensor.default", Ref("q1"), *grid),
    )
    folded = graph(
        replace(INPUT, encoding=COARSE),
        call("mul", "aten.mul.Tensor", Ref("x"), 0.3, encoding=COARSE),
    )
    expected = fake_quantise(fake_quantise(X, COARSE) * 0.3, COARSE)
    for each in (explicit, folded):
        walk = evaluate(each, [X], NOTHING.load)
        assert walk.problems == {}
        same(walk.results[0], expected)
        same(evaluate(each, [X], NOTHING.load, meaning="float").results[0], X * 0.3)


def test_quantise_operator_that_was_folded_too_rounds_once() -> None:
    node = call("q", "quantized_decomposed.quantize_per_tensor.default", Ref("x"), 0.5, 10, 0, 255)
    walk = evaluate(graph(INPUT, replace(node, encoding=FINE)), [X], NOTHING.load)
    same(walk.results[0], fake_quantise(X, FINE))


def test_user_that_reads_another_encoding_gets_it_and_others_do_not() -> None:
    relu = call("relu", "aten.relu.default", Ref("x"), encoding=FINE, requantize={"left": COARSE})
    left, right = (call(name, "aten.mul.Tensor", Ref("relu"), 2.0) for name in ("left", "right"))
    both = graph(INPUT, relu, left, right, results=("left", "right"))
    fine = fake_quantise(X.relu(), FINE)
    walk = evaluate(both, [X], NOTHING.load)
    same(walk.results[0], fake_quantise(fine, COARSE) * 2)
    same(walk.results[1], fine * 2)
    same(walk.values["relu", 0], fine)
    same(evaluate(both, [X], NOTHING.load, meaning="float").results[0], X.relu() * 2)


def test_the_graphs_output_may_read_another_encoding_too() -> None:
    relu = call("relu", "aten.relu.default", Ref("x"), encoding=FINE, requantize={"output": COARSE})
    ends = Node(name="output", op="output", target="output", args=(Seq(items=(Ref("relu"),)),))
    whole = graph(INPUT, relu, ends, results=("relu",))
    walk = evaluate(whole, [X], NOTHING.load)
    same(walk.results[0], fake_quantise(fake_quantise(X.relu(), FINE), COARSE))
    same(walk.values["relu", 0], fake_quantise(X.relu(), FINE))
    same(evaluate(whole, [X], NOTHING.load, meaning="float").results[0], X.relu())


def test_each_of_several_outputs_has_the_encoding_of_the_node_that_picks_it() -> None:
    topk = call("topk", "aten.topk.default", Ref("x"), 2, multiple=True, outputs=(F32, F32))
    values = call("values", "operator.getitem", Ref("topk"), 0, encoding=COARSE)
    indexes = call("indexes", "operator.getitem", Ref("topk"), 1)
    walk = evaluate(graph(INPUT, topk, values, indexes, results=("values", "indexes")), [X], NOTHING.load)
    expected = torch.topk(X, 2)
    for found in (walk.values["topk", 0], walk.results[0]):
        same(found, fake_quantise(expected.values, COARSE))
    for found in (walk.values["topk", 1], walk.results[1]):
        same(found, expected.indices)


def test_half_floats_are_multiplied_with_weights_in_integers() -> None:
    held = Held(w=torch.tensor([[3, -5], [7, 11]], dtype=torch.int8))
    grid = QuantParams(scales=(0.5,), zero_points=(0,), qmin=-128, qmax=127, dtype="int8")
    weight = Node(name="w", op="placeholder", role="parameter", constant=held.ref("w"), encoding=grid)
    half = call("half", "aten._to_copy.default", Ref("x"))
    half = replace(half, kwargs={"dtype": Atom("dtype", "float16")})
    linear = call("linear", "aten.linear.default", Ref("half"), Ref("w"))
    walk = evaluate(graph(weight, INPUT, half, linear), [torch.tensor([[1.0, 2.0]])], held.load)
    assert walk.results[0].tolist() == [[1.5 - 5.0, 3.5 + 11.0]]


def test_integers_are_never_rounded() -> None:
    argmax = call("argmax", "aten.argmax.default", Ref("x"), -1, encoding=COARSE)
    same(evaluate(graph(INPUT, argmax), [X], NOTHING.load).results[0], X.argmax(-1))


def test_input_may_come_as_integers_of_its_encoding() -> None:
    integers = torch.randint(0, 255, (2, 3, 4, 5), dtype=torch.uint8)
    quantised = graph(replace(INPUT, encoding=COARSE), call("neg", "aten.neg.default", Ref("x")))
    same(evaluate(quantised, [integers], NOTHING.load).results[0], -dequantise(integers, COARSE))


WEIGHT = torch.randint(-128, 127, (4, 3, 2, 2), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
CHANNELS = QuantParams(
    scheme="per_channel",
    scales=(0.1, 0.02, 0.3, 0.04),
    zero_points=(0, 1, -2, 3),
    qmin=-128,
    qmax=127,
    dtype="int8",
    axis=0,
)
CONV_ARGS: tuple[Arg, ...] = (None, Seq((1, 1)), Seq((0, 0)), Seq((1, 1)), False, Seq((0, 0)), 1)


def test_stored_integers_are_read_as_the_numbers_that_they_stand_for() -> None:
    held = Held(w=WEIGHT)
    weight = Node(name="w", op="get_attr", constant=held.ref("w"), encoding=CHANNELS)
    conv = call("conv", "aten.convolution.default", Ref("x"), Ref("w"), *CONV_ARGS)
    expected = functional.conv2d(X, dequantise(WEIGHT, CHANNELS))
    for meaning in ("quantised", "float"):
        walk = evaluate(graph(INPUT, weight, conv), [X], held.load, meaning=meaning)
        same(walk.results[0], expected)


def test_dequantise_operator_gets_the_integers_themselves() -> None:
    held = Held(w=WEIGHT, s=torch.tensor(CHANNELS.scales), z=torch.tensor(CHANNELS.zero_points))
    constants = [Node(name=n, op="get_attr", constant=held.ref(n)) for n in ("w", "s", "z")]
    constants[0] = replace(constants[0], encoding=CHANNELS)
    back = call(
        "back",
        "quantized_decomposed.dequantize_per_channel.default",
        *(Ref("w"), Ref("s"), Ref("z"), 0, -128, 127, Atom("dtype", "int8")),
    )
    walk = evaluate(graph(*constants, back), [], held.load)
    same(walk.results[0], dequantise(WEIGHT, CHANNELS))


def test_real_constant_is_rounded_to_its_encoding() -> None:
    held = Held(b=X)
    constant = Node(name="b", op="get_attr", constant=held.ref("b"), encoding=COARSE)
    add = call("add", "aten.add.Tensor", Ref("x"), Ref("b"))
    same(evaluate(graph(INPUT, constant, add), [X], held.load).results[0], X + fake_quantise(X, COARSE))
    same(evaluate(graph(INPUT, constant, add), [X], held.load, meaning="float").results[0], X + X)


def channels_last(*inner: Node, results: Sequence[str] = ()) -> tuple[Graph, Held]:
    """Nodes of NHWC layout between the two permutes that a layout pass puts around them."""
    held = Held(w=dequantise(WEIGHT, CHANNELS), b=torch.randn(1, 4, 1, 1))
    held_nodes = [Node(name=n, op="placeholder", role="parameter", constant=held.ref(n)) for n in ("w", "b")]
    into = call("into", "aten.permute_copy.default", Ref("x"), Seq(NHWC), layout_permute=True)
    back = call("back", "aten.permute_copy.default", Ref(inner[-1].name), Seq(NCHW), layout_permute=True)
    nodes = (*held_nodes, INPUT, into, *inner, back)
    return graph(*nodes, results=results, stored_layout=True), held


CONV = call("conv", "aten.convolution.default", Ref("into"), Ref("w"), *CONV_ARGS, axis_order=NHWC)


def test_convolution_between_layout_permutes_is_the_plain_convolution() -> None:
    stored, held = channels_last(CONV)
    walk = evaluate(stored, [X], held.load)
    expected = functional.conv2d(X, held.tensors["w"])
    assert walk.problems == {}
    same(walk.results[0], expected)
    same(walk.values["into", 0], X.permute(NHWC))
    same(walk.values["conv", 0], expected.permute(NHWC))
    same(walk.values["back", 0], expected)
    assert all(value.is_contiguous() for value in walk.values.values() if value is not walk.results[0])


def test_whole_chain_of_a_stored_layout_is_the_plain_chain() -> None:
    chain = [
        CONV,
        call("add", "aten.add.Tensor", Ref("conv"), Ref("b"), axis_order=NHWC),
        call(
            "split", "aten.split.Tensor", Ref("add"), 2, 1, axis_order=NHWC, multiple=True, outputs=(F32, F32)
        ),
        call("second", "operator.getitem", Ref("split"), 1, axis_order=NHWC, encoding=COARSE),
        call("pool", "aten.mean.dim", Ref("second"), Seq((2, 3)), True, axis_order=NHWC),
    ]
    stored, held = channels_last(*chain, results=("back", "second"))
    walk = evaluate(stored, [X], held.load)
    assert walk.problems == {}
    summed = functional.conv2d(X, held.tensors["w"]) + held.tensors["b"]
    second = fake_quantise(summed.split(2, 1)[1], COARSE)
    same(walk.values["split", 1], second.permute(NHWC))
    same(walk.results[1], second.permute(NHWC))
    same(walk.results[0], second.mean((2, 3), keepdim=True))


def test_axis_order_is_no_layout_unless_permutes_are_explicit() -> None:
    relu = call("relu", "aten.relu.default", Ref("x"), axis_order=NHWC)
    same(evaluate(graph(INPUT, relu), [X], NOTHING.load).results[0], X.relu())


def test_axis_order_of_another_rank_is_no_layout_of_the_value() -> None:
    flat = call("flat", "aten.sum.dim_IntList", Ref("conv"), Seq((2, 3)), axis_order=NHWC)
    stored, held = channels_last(CONV, flat, results=("flat",))
    walk = evaluate(replace(stored, nodes=stored.nodes[:-1]), [X], held.load)
    same(walk.results[0], functional.conv2d(X, held.tensors["w"]).sum((2, 3)))


def test_value_put_in_is_what_users_read_and_the_computed_one_is_noted() -> None:
    chain = graph(
        INPUT,
        call("relu", "aten.relu.default", Ref("x")),
        call("neg", "aten.neg.default", Ref("relu")),
    )
    seen: list[tuple[str, int]] = []

    def put(computed: Computed) -> torch.Tensor | None:
        seen.append((computed.node.name, computed.output))
        return torch.full_like(X, 7.0) if computed.node.name == "relu" else computed.value

    walk = evaluate(chain, [X], NOTHING.load, replace=put)
    same(walk.results[0], torch.full_like(X, -7.0))
    same(walk.values["relu", 0], X.relu())
    assert seen == [("x", 0), ("relu", 0), ("neg", 0)]


def test_inputs_and_constants_can_be_put_in_too() -> None:
    held = Held(w=torch.tensor([2.0]))
    weight = Node(name="w", op="get_attr", constant=held.ref("w"))
    product = graph(INPUT, weight, call("mul", "aten.mul.Tensor", Ref("x"), Ref("w")))
    others = {"x": torch.full_like(X, 3.0), "w": torch.tensor([5.0])}
    walk = evaluate(product, [X], held.load, replace=lambda c: others.get(c.node.name, c.value))
    same(walk.results[0], torch.full_like(X, 15.0))


def test_what_was_computed_is_shown_before_and_after_its_rounding() -> None:
    rounded_to: dict[str, list[float]] = {}
    exact: dict[str, list[float]] = {}

    def look(computed: Computed) -> torch.Tensor | None:
        assert computed.value is not None
        assert computed.exact is not None
        rounded_to[computed.node.name] = computed.value.tolist()
        exact[computed.node.name] = computed.exact.tolist()
        return computed.value

    halves = QuantParams(scales=(0.5,), zero_points=(0,), qmin=0, qmax=3, dtype="uint8")
    given = replace(INPUT, outputs=(TensorSpec((3,), "float32"),))
    rounded = call("mul", "aten.mul.Tensor", Ref("x"), 1.0, encoding=halves)
    evaluate(graph(given, rounded), [torch.tensor([0.7, -1.0, 9.0])], NOTHING.load, replace=look)
    assert rounded_to["mul"] == pytest.approx([0.5, 0.0, 1.5])
    assert exact["mul"] == pytest.approx([0.7, -1.0, 9.0])


def test_value_put_in_is_in_stored_layout() -> None:
    stored, held = channels_last(CONV)
    other = torch.randn(2, 3, 4, 4)  # N, H, W, C
    walk = evaluate(stored, [X], held.load, replace=lambda c: other if c.node.name == "conv" else c.value)
    same(walk.results[0], other.permute(NCHW))


def test_each_output_can_be_put_in() -> None:
    topk = call("topk", "aten.topk.default", Ref("x"), 2, multiple=True, outputs=(F32, F32))
    picked = [call(f"get{i}", "operator.getitem", Ref("topk"), i) for i in (0, 1)]
    walk = evaluate(
        graph(INPUT, topk, *picked, results=("get0", "get1")),
        [X],
        NOTHING.load,
        replace=lambda c: torch.tensor([float(c.output)]) if c.node.name == "topk" else c.value,
    )
    assert [r.tolist() for r in walk.results] == [[0.0], [1.0]]


def delegate_walk(call_partition: Any, **of_the_second: Any) -> Walk:
    lowered = Node(name="lowered", op="get_attr", target="lowered_module_3")
    delegate = call(
        "call",
        "higher_order.executorch_call_delegate",
        *(Ref("lowered"), Ref("x"), 5),
        multiple=True,
        outputs=(F32, F32),
    )
    second = call("second", "operator.getitem", Ref("call"), 1, **of_the_second)
    whole = graph(INPUT, lowered, delegate, second, partitions={"lowered_module_3": 3})
    return evaluate(whole, [X], NOTHING.load, call_partition=call_partition)


def test_delegate_is_computed_by_its_number_from_its_inputs() -> None:
    def call_partition(number: int, inputs: Sequence[Any]) -> Sequence[Any]:
        assert number == 3
        same(inputs[0], X)
        assert inputs[1] == 5
        return [X + 1, X + 2]

    walk = delegate_walk(call_partition)
    same(walk.results[0], X + 2)
    same(walk.values["call", 0], X + 1)


def test_what_a_delegate_returns_is_not_rounded_again() -> None:
    """The node that picks it still has the encoding of an op within, which may requantise it."""
    walk = delegate_walk(lambda _number, _inputs: [X + 1, X + 2], encoding=COARSE)
    same(walk.results[0], X + 2)


def test_delegate_that_no_one_computes_is_a_problem() -> None:
    walk = delegate_walk(None)
    assert walk.problems["call"] == "the delegate's partition was not recorded"
    assert walk.results == [None]


@pytest.mark.parametrize("count", [0, 1])
def test_state_is_read_and_its_new_value_is_given(count: int) -> None:
    held = Held(k=torch.full((2,), 3.0))
    state = Node(name="k", op="placeholder", role="state", constant=held.ref("k"))
    added = call("added", "aten.add.Tensor", Ref("k"), Ref("x"))
    outputs = (Output(value=Ref("added"), role="mutation", target="k"), *(Output(value=Ref("k")),) * count)
    walk = evaluate(Graph(nodes=(INPUT, state, added), outputs=outputs), [torch.ones(2)], held.load)
    assert {name: value.tolist() for name, value in walk.state.items()} == {"k": [4.0, 4.0]}
    assert [r.tolist() for r in walk.results] == [[3.0, 3.0]] * count
