"""What places are called, what getitems add, and which op behind a place magnifies its error."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.analyze.causes import sources_of
from qnndbg.analyze.places import Places, told_apart
from qnndbg.model.attribution import Effect, Step
from qnndbg.model.graph import Node, Origin, Ref, TensorRef
from qnndbg.model.result import Cause
from tests.unit.evidence import attribution, effect, rounding
from tests.unit.recordings import node


def at(name: str, op: str = "aten.mul.Tensor", **fields: Any) -> Effect:
    """An effect in partition 0."""
    return effect(name=f"{name}@0", node=name, op=op, partition=0, **fields)


def places(*nodes: Node, exported: tuple[Node, ...] = ()) -> Places:
    return Places(nodes={(0, n.name): n for n in nodes}, exported={n.name: n for n in exported})


def reads(name: str, target: str, *sources: str, **fields: Any) -> Node:
    return node(name, target, args=tuple(map(Ref, sources)), **fields)


VARIANCE = (
    node("x", op="placeholder", target="x", role="input"),
    reads("square", "aten.mul.Tensor", "x", "x"),
    reads("mean", "aten.mean.dim", "square"),
    reads("mean_1", "aten.mean.dim", "x"),
    reads("square_1", "aten.mul.Tensor", "mean_1", "mean_1"),
    reads("sub", "aten.sub.Tensor", "mean", "square_1", origin=Origin(source="net.py:8")),
    reads("sqrt", "aten.sqrt.default", "sub"),
    reads("aside", "aten.sub.Tensor", "x", "x"),
)
"""The mean of squares less the square of the mean: two numbers near 900 whose difference is 0.01."""


def test_the_op_that_magnifies_is_named_and_not_what_only_passes_it_on() -> None:
    relative = {"mean": 1e-4, "mean_1": 2e-4, "square_1": 4e-4, "sub": 0.4, "sqrt": 0.2, "aside": 5.0}
    ops = {"sub": "aten.sub.Tensor", "sqrt": "aten.sqrt.default"}
    effects = [
        at(
            name,
            ops.get(name, "aten.mean.dim"),
            accumulated=size,
            error=1e-4 if name.startswith("mean") else 0.0,
            floor=1e-4,
            exact=0.5 if name.startswith("mean") else 0.0,
            source="net.py:8" if name == "sub" else "net.py:7",
        )
        for name, size in relative.items()
    ]
    found = sources_of(attribution(*effects, error=0.2), places(*VARIANCE))
    # What sub reads is off by 4e-4 at the most, and sub by 0.4: a thousand times as much.
    said = "its error is rounding, which sub (net.py:8) magnifies 1000 times"
    assert [(s.called, s.detail, s.magnified_by) for s in found] == [
        ("mean [mean]", said, "sub (net.py:8)"),
        ("mean [mean_1]", said, "sub (net.py:8)"),
    ]


@pytest.mark.parametrize(("step", "cause"), [("backend", "rounding"), ("quantisation", "few bits")])
def test_an_op_that_picks_a_small_part_does_not_magnify(step: Step, cause: Cause) -> None:
    nodes = (
        node("x", op="placeholder", target="x", role="input"),
        reads("cat", "aten.cat.default", "x"),
        reads("boxes", "aten.slice.Tensor", "cat"),
        reads("scores", "aten.slice_copy.Tensor", "cat", origin=Origin(source="net.py:9")),
    )
    effects = [
        at(
            "cat",
            "aten.cat.default",
            accumulated=1e-3,
            error=1e-3,
            floor=1e-3,
            exact=1.0,
            rounding=rounding(),
        ),
        at("scores", "aten.slice_copy.Tensor", accumulated=0.5, error=0.0, exact=0.0, source="net.py:9"),
    ]
    made = replace(attribution(*effects, error=0.5), step=step)
    (found, *_) = sources_of(made, places(*nodes))
    assert (found.cause, found.magnified_by) == (cause, "")
    assert found.detail.endswith("too coarse for the part that slice_copy (net.py:9) picks")


def test_where_no_op_stands_out_the_net_magnifies() -> None:
    effects = [at("mean", accumulated=1e-4, error=1e-4, floor=1e-4), at("sub", accumulated=2.9e-4, exact=0)]
    (found, *_) = sources_of(attribution(*effects, error=0.2), places(*VARIANCE))
    assert found.detail == "its error is rounding, which the net magnifies 1000 times"
    assert found.magnified_by == ""


def test_the_quantisers_rounding_says_its_bits() -> None:
    made = replace(at("mean", accumulated=1e-4, error=1e-4, rounding=rounding()), partition=None)
    sub = replace(at("sub", "aten.sub.Tensor", accumulated=0.1, exact=0.0), partition=None)
    graph = Places(nodes={(None, n.name): n for n in VARIANCE})
    (found,) = sources_of(attribution(made, sub, step="quantisation", error=0.2), graph)
    assert found.detail == "its error is rounding to 8 bits, which sub magnifies 1000 times"


def test_a_getitem_counts_with_the_op_that_it_picks_from() -> None:
    graph = places(
        reads("topk", "aten.topk.default", "x"), node("get", "operator.getitem", args=(Ref("topk"), 0))
    )
    topk = at("topk", "aten.topk.default", exact=84.5, linear=84.0)
    get = at("get", "operator.getitem", exact=-84.0, linear=-84.5, rounding=rounding())
    (one,) = graph.gathered(attribution(topk, get)).effects
    assert (one.node, one.exact, one.linear, one.rounding) == ("topk", 0.5, -0.5, rounding())
    equal = attribution(topk, replace(get, exact=-84.5))
    assert sources_of(equal, graph) == ()
    assert len(sources_of(equal)) == 2


def test_a_getitem_adds_to_the_output_that_it_picks() -> None:
    graph = places(
        reads("topk", "aten.topk.default", "x"), node("get", "operator.getitem", args=(Ref("topk"), 1))
    )
    outputs = [at("topk", output=i, exact=share) for i, share in ((0, 0.1), (1, 0.2))]
    found = graph.gathered(attribution(*outputs, at("get", exact=0.3, linear=None))).effects
    assert [e.share for e in found] == pytest.approx([0.1, 0.5])


def test_a_getitem_without_its_op_stays() -> None:
    graph = places(node("get", "operator.getitem", args=(Ref("topk"), 0)))
    assert len(graph.gathered(attribution(at("get"))).effects) == 1


def test_an_input_and_a_constant_go_by_their_own_names() -> None:
    stored = TensorRef("0" * 32, "float32", (3,))
    weight = node("w", op="get_attr", target="fc.weight", constant=stored)
    graph = places(exported=(weight,))
    given = replace(at("x", half=True, peak=7e4), kind="input", name="input_0_x_0@0")
    held = replace(at("p_fc_weight", half=True, peak=7e4), kind="constant", name="p_fc_weight@0")
    other = replace(at("b_is_lost", half=True, peak=7e4), kind="constant", name="b_is_lost@0")
    found = {s.name: s.called for s in sources_of(attribution(given, held, other), graph)}
    assert found == {
        "x": "the input x",
        "fc.weight": "the constant fc.weight",
        "b_is_lost": "the constant b_is_lost",
    }


@pytest.mark.parametrize(
    ("name", "module", "path"),
    [
        ("p_fc_weight", "fc", "fc.weight"),
        ("p_block_0_fc_bias", "block.0.fc", "block.0.fc.bias"),
        ("b_scale", "", "scale"),
        ("p_fc_weight", "", "p_fc_weight"),
        ("p_fc_weight", "act", "p_fc_weight"),
        ("lifted", "", "lifted"),
    ],
)
def test_a_constant_goes_by_its_path_where_that_is_sure(name: str, module: str, path: str) -> None:
    held = at(name, kind="constant", module=module, half=True, peak=7e4)
    assert Places().name(held) == path


SAME = {
    "aten.convolution.default": "aten.conv2d.default",
    "aten.native_layer_norm.default": "aten.layer_norm.default",
    "aten._softmax.default": "aten.softmax.int",
    "aten.view_copy.default": "aten.view.default",
}


@pytest.mark.parametrize(("op", "exported"), SAME.items())
def test_an_op_is_called_as_the_model_calls_it(op: str, exported: str) -> None:
    made = node("edge", op, origin=Origin(ancestors=("torch_name",)))
    graph = places(made, exported=(node("torch_name", exported),))
    (found,) = sources_of(attribution(at("edge", op)), graph)
    assert (found.called, found.op) == (exported.split(".")[1], op)


def test_an_op_that_another_was_decomposed_into_keeps_its_name() -> None:
    made = node("exp", "aten.exp.default", origin=Origin(ancestors=("softplus",)))
    graph = places(made, exported=(node("softplus", "aten.softplus.default"),))
    (found,) = sources_of(attribution(at("exp", "aten.exp.default")), graph)
    assert found.called == "exp"


def test_only_equal_names_at_an_equal_place_are_told_apart() -> None:
    names = told_apart(["mean", "mean", "mul", "mean"], ["a", "a", "a", "b"], ["n", "n_1", "n_2", "n_3"])
    assert names == ("mean [n]", "mean [n_1]", "mul", "mean")


def test_outputs_of_one_op_are_told_apart() -> None:
    found = sources_of(attribution(at("topk"), replace(at("topk"), output=1, name="topk@1")))
    assert {source.called for source in found} == {"mul [topk]", "mul [topk, 1]"}


def test_no_gain_is_found_behind_a_place_without_an_error() -> None:
    effects = (at("mean", accumulated=0.0), at("sub", accumulated=1.0), at("sqrt", accumulated=math.inf))
    assert places(*VARIANCE).magnifier(attribution(*effects), effects[0]) is None
