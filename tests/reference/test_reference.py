"""Graphs evaluated from a recording against torch itself: the module, or the same ops called by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from msgspec.structs import replace
from torch import nn
from torch.nn import functional

from qnndbg.model.graph import Graph, Node, Output, Ref, TensorRef
from tests.reference.conftest import Store

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Tensors = tuple[torch.Tensor, ...]


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def leaves(value: object) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(value))


def same(found: list[Any], expected: list[Any]) -> None:
    """Bit by bit, dtypes and shapes included."""
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        if isinstance(right, torch.Tensor):
            assert isinstance(left, torch.Tensor)
            torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)
        else:
            assert left == right


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def masked(x: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(x > 0, float("-inf")).softmax(-1)


def in_place(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).mul_(2).add_(x).relu_()


def in_place_through_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0].zero_()
    return y


MODULES: dict[str, tuple[Callable[[], nn.Module], Tensors]] = {
    "conv": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), (X,)),
    "depthwise conv": (lambda: nn.Conv2d(3, 6, 3, groups=3, stride=2, padding=1, dilation=2), (X,)),
    "linear": (lambda: nn.Linear(8, 5), (X,)),
    "layer norm": (lambda: nn.LayerNorm([8, 8]), (X,)),
    "lstm": (lambda: nn.LSTM(8, 4), (X[0],)),
}
FUNCTIONS: dict[str, tuple[Callable[..., Any], Tensors]] = {
    "split": (lambda x: torch.split(x, [1, 2], 1), (X,)),
    "chunk of which one is used": (lambda x: torch.chunk(x, 4, -1)[2], (X,)),
    "topk": (lambda x: torch.topk(x, 3), (X,)),
    "in place": (in_place, (X,)),
    "in place through a view": (in_place_through_a_view, (X,)),
    "a number": (lambda x: x.sum() * x.mean(), (X,)),
    "a number as input and constant": (lambda x: x * 2 + torch.tensor(3.0), (torch.tensor(1.5),)),
    "an empty tensor": (lambda x: x[:, :0] * 2, (X,)),
    "an infinite fill": (masked, (X,)),
    "infinite keywords": (lambda x: torch.clamp(x, min=float("-inf"), max=0.5), (X,)),
    "a fill with NaN": (lambda x: x.masked_fill(x > 0, float("nan")), (X,)),
    "slices": (lambda x: x[:, 1:, ::2, -3:], (X,)),
    "index lists with gaps": (lambda x: x[:, torch.tensor([1, 0]), :, torch.tensor([1, 0])], (X,)),
    "dtypes": (lambda x: x.to(torch.float64).sum(-1, dtype=torch.float32), (X,)),
    "integers": (lambda x: x.to(torch.int64) + torch.arange(8), (X,)),
    "bools": (lambda x: torch.logical_and(x > 0, x < 1), (X,)),
    "bfloat16": (lambda x: x.to(torch.bfloat16) * 2, (X,)),
    "complex": (lambda x: torch.view_as_real(torch.fft.fft(x) * (1 + 2j)), (X,)),
    "keywords": (lambda x: functional.gelu(x, approximate="tanh") + torch.full((8,), 2.0), (X,)),
    "memory format": (lambda x: x.clone(memory_format=torch.channels_last) + 1, (X,)),
    "strings": (lambda x: torch.einsum("bchw,bcwk->bchk", x, x), (X,)),
    "attention": (lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True), (X,)),
    "interpolation": (lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear"), (X,)),
    "results that are no tensors": (lambda x: (x + 1, None, 3), (X,)),
    "an input as result": (lambda x, y: (y, x), (X, X + 1)),
    "one result twice": (lambda x: (lambda y: (y, y))(x + 1), (X,)),
}


def case(name: str) -> tuple[nn.Module, Tensors]:
    if name in MODULES:
        make, inputs = MODULES[name]
        return seeded(make), inputs
    function, inputs = FUNCTIONS[name]
    return Calls(function), inputs


@pytest.mark.parametrize("name", [*MODULES, *FUNCTIONS])
def test_exported_module_computes_what_the_module_does(store: Store, name: str) -> None:
    module, inputs = case(name)
    with torch.no_grad():
        expected = leaves(module(*(x.clone() for x in inputs)))
    graph = store.snapshot(torch.export.export(module, inputs, strict=True))
    for meaning in ("quantised", "float"):
        walk = store.evaluate(graph, inputs, meaning)
        assert walk.problems == {}
        same(walk.results, expected)


@pytest.mark.parametrize("name", ["conv", "linear", "layer norm", "split", "topk", "dtypes", "memory format"])
def test_edge_program_computes_what_torch_makes_of_it(store: Store, name: str) -> None:
    module, inputs = case(name)
    edge = to_edge(torch.export.export(module, inputs, strict=True)).exported_program()
    with torch.no_grad():
        expected = leaves(edge.module()(*inputs))
    walk = store.evaluate(store.snapshot(edge), inputs)
    assert walk.problems == {}
    same(walk.results, expected)


def test_dynamic_shape_is_taken_from_the_inputs(store: Store) -> None:
    module = Calls(lambda x: x.reshape(x.shape[0], -1).sum(0) / x.shape[0])
    batch = torch.export.Dim("batch", min=2, max=9)
    program = torch.export.export(module, (X,), dynamic_shapes=(({0: batch},),), strict=True)
    graph = store.snapshot(program)
    longer = torch.cat((X, X + 1, X * 2))
    walk = store.evaluate(graph, (longer,))
    assert walk.problems == {}
    same(walk.results, [module(longer)])


class Counter(nn.Module):
    """Writes its buffer."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor([1.0, 2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(x)
        return self.count * 10


@pytest.mark.parametrize("decomposed", [False, True])
def test_state_begins_as_it_was_recorded_and_its_new_value_is_given(store: Store, decomposed: bool) -> None:
    x = torch.tensor([0.5, 0.25])
    program = torch.export.export(Counter(), (x,), strict=True)
    if decomposed:
        program = program.run_decompositions({})
    graph = store.snapshot(program)
    for _ in range(2):  # an evaluation leaves nothing behind
        walk = store.evaluate(graph, (x,))
        same(walk.results, [torch.tensor([15.0, 22.5])])
        if decomposed:
            assert set(walk.state) == {node.name for node in graph.nodes if node.role == "state"}
            same(list(walk.state.values()), [torch.tensor([1.5, 2.25])])


def test_every_value_of_the_walk_is_given(store: Store) -> None:
    graph = store.snapshot(torch.export.export(Calls(lambda x: torch.topk(x.relu(), 2)), (X,), strict=True))
    values = store.evaluate(graph, (X,)).values
    top = torch.topk(X.relu(), 2)
    expected = {("relu", 0): X.relu(), ("topk", 0): top.values, ("topk", 1): top.indices}
    for key, value in expected.items():
        same([values[key]], [value])


def test_an_op_that_is_described_with_one_output_gives_all_that_it_has(store: Store) -> None:
    graph = store.snapshot(torch.export.export(Calls(lambda x: x.min(dim=1).values), (X,), strict=True))
    one = [replace(n, multiple=False, outputs=n.outputs[:1]) if n.multiple else n for n in graph.nodes]
    assert one != [*graph.nodes]
    walk = store.evaluate(replace(graph, nodes=tuple(one)), (X,))
    same(walk.results, [X.min(dim=1).values])
    same([walk.values["min_1", 0]], [X.min(dim=1).values])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_is_evaluated_unless_it_drops_at_random(store: Store, dropout: float) -> None:
    def attend(x: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=dropout)

    walk = store.evaluate(store.snapshot(torch.export.export(Calls(attend), (X,), strict=True)), (X,))
    if dropout:
        assert list(walk.problems.values()) == ["it draws random numbers, which are others each time"]
    else:
        same(walk.results, [attend(X)])


@pytest.mark.parametrize("dims", [(), (0,), (1, 0)])
def test_constants_of_any_shape_and_dtype_are_loaded(store: Store, dims: tuple[int, ...]) -> None:
    for dtype in (torch.bfloat16, torch.bool, torch.int64, torch.float16):
        held = torch.ones(dims).to(dtype)
        ref = store.weights.ref(held)
        assert ref == TensorRef(ref.digest if ref else "", str(dtype).removeprefix("torch."), dims)
        node = Node(name="c", op="get_attr", constant=ref)
        walk = store.evaluate(Graph(nodes=(node,), outputs=(Output(value=Ref("c")),)), ())
        same(walk.results, [held])


def test_guards_of_an_exported_module_are_no_problem(store: Store) -> None:
    module = torch.export.export(Calls(torch.relu), (X,), strict=True).module()
    graph = store.snapshot(module)
    walk = store.evaluate(graph, (X,))
    assert walk.problems == {}
    same(walk.results, [X.relu()])


def test_graph_without_results_is_evaluated_too(store: Store) -> None:
    graph = store.snapshot(torch.export.export(Calls(torch.relu), (X,), strict=True))
    walk = store.evaluate(replace(graph, outputs=()), (X,))
    assert (walk.results, walk.problems) == ([], {})
