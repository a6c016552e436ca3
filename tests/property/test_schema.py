"""Random graphs: they survive being written, and their structure digest sees structure and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qnndbg.model.graph import (
    Arg,
    Atom,
    Graph,
    Node,
    Origin,
    Output,
    QuantParams,
    Ref,
    Seq,
    Slice,
    TensorRef,
    TensorSpec,
)
from qnndbg.recording.lines import nodes, read_nodes
from qnndbg.recording.schema import decode, encode, encode_pretty, graph_digest, structure_digest

NAMES = ("x", "0", "ref", "größe", "a b")
"""Of the nodes of every graph, in their order; odd, and free of any that the tests give."""
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ATOMS = st.builds(Atom, st.sampled_from(["dtype", "layout", "device", "float", "symbol"]), TEXT)
LEAVES: st.SearchStrategy[Any] = st.none() | st.booleans() | INT64 | FLOATS | TEXT | ATOMS
ORIGINS = st.builds(Origin, ancestors=st.tuples(TEXT), module_path=TEXT, source=TEXT, created_by=TEXT)
SPECS = st.sampled_from(
    [
        None,
        *(
            TensorSpec(*spec)
            for spec in [((), "bool"), ((2,), "int64"), ((2, "s0"), "int64"), ((2,), "bool")]
        ),
    ]
)
REFS = st.sampled_from(
    [
        None,
        *(
            TensorRef(*ref)
            for ref in [("0" * 32, "int8", ()), ("f" * 32, "int8", ()), ("0" * 32, "int8", (1,))]
        ),
    ]
)
PLAIN = QuantParams(scales=(0.1,), zero_points=(3,), qmin=0, qmax=255, dtype="uint8")
ENCODINGS = st.sampled_from(
    [
        PLAIN,
        replace(PLAIN, scales=(0.1000000001,)),
        replace(PLAIN, zero_points=(-3,)),
        replace(PLAIN, qmax=254),
        replace(PLAIN, dtype="int32"),
        replace(PLAIN, scheme="per_channel", axis=0),
        replace(PLAIN, scheme="per_channel", axis=1),
        replace(PLAIN, scheme="per_block", block_size=(1, 32)),
    ]
)
ROLES = st.sampled_from(["", "input", "parameter", "buffer", "constant", "state"])
OPS = st.sampled_from(["placeholder", "get_attr", "call_function", "call_module", "call_method", "output"])


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    sequences = st.lists(inner, max_size=3).map(lambda items: Seq(tuple(items)))
    return sequences | st.builds(Slice, inner, inner, inner)


ARGS = tuple(
    st.recursive(LEAVES | st.sampled_from(NAMES[:count]).map(Ref) if count else LEAVES, _nested, max_leaves=3)
    for count in range(len(NAMES) + 1)
)
"""Arguments that refer to the first nodes, by the number of these."""
FIELDS: tuple[dict[str, st.SearchStrategy[Any]], ...] = tuple(
    {
        "op": OPS,
        "args": st.lists(arg, max_size=2).map(tuple),
        "kwargs": st.dictionaries(st.sampled_from(["dim", "out"]), arg, max_size=2),
        "outputs": st.lists(SPECS, max_size=2).map(tuple),
        "multiple": st.booleans(),
        "encoding": st.none() | ENCODINGS,
        "requantize": st.dictionaries(st.sampled_from(NAMES[: count or 1]), ENCODINGS, max_size=1),
        "axis_order": st.sampled_from([None, (0, 2, 3, 1), (0, 1, 2)]),
        "layout_permute": st.booleans(),
        "quantized_io": st.booleans(),
        "role": ROLES,
        "constant": REFS,
    }
    for count, arg in enumerate(ARGS)
)
"""What makes up the structure, but for the target, by the number of nodes that may be referred to."""
NODES = tuple(
    st.fixed_dictionaries(
        {"target": TEXT, "handle": st.sampled_from([(), (3,), (4, 5)]), "tensors": st.just(("relu@0",))},
        optional=fields,
    )
    for fields in FIELDS
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to five nodes in topological order, of every kind and with every field."""
    count = draw(st.integers(1, len(NAMES)))
    nodes = []
    for name, strategy in zip(NAMES[:count], NODES, strict=False):
        fields: dict[str, Any] = draw(strategy)
        nodes.append(Node(**{"op": "call_function", **fields, "name": name}))
    outputs = [Output(value=result) for result in draw(st.lists(ARGS[count], max_size=2))]
    if draw(st.booleans()):
        written = draw(st.sampled_from(NAMES[:count]))
        outputs.append(Output(value=draw(ARGS[count]), role="mutation", target=written))
    return Graph(nodes=tuple(nodes), outputs=tuple(outputs), stored_layout=draw(st.booleans()))


def renamed(graph: Graph, name: Callable[[str], str]) -> Graph:
    """The same graph under other names."""

    def arg(value: Arg) -> Arg:
        if isinstance(value, Ref):
            return Ref(name(value.node))
        if isinstance(value, Seq):
            return Seq(tuple(arg(item) for item in value.items))
        if isinstance(value, Slice):
            return Slice(arg(value.start), arg(value.stop), arg(value.step))
        return value

    nodes = tuple(
        replace(
            node,
            name=name(node.name),
            args=tuple(arg(a) for a in node.args),
            kwargs={key: arg(a) for key, a in node.kwargs.items()},
            requantize={name(user): encoding for user, encoding in node.requantize.items()},
        )
        for node in graph.nodes
    )
    outputs = tuple(
        replace(o, value=arg(o.value), target=name(o.target) if o.role == "mutation" else "")
        for o in graph.outputs
    )
    return replace(graph, nodes=nodes, outputs=outputs)


def with_node(graph: Graph, index: int, **changes: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[index] = replace(nodes[index], **changes)
    return replace(graph, nodes=tuple(nodes))


@given(graphs())
def test_graphs_survive_being_written(graph: Graph) -> None:
    for data in (encode(graph), encode_pretty(graph)):
        read = decode(data, Graph, "a graph")
        assert read == graph
        assert encode(read) == encode(graph)  # tells 1 from 1.0 and from True, which == does not
        assert structure_digest(read) == structure_digest(graph)


@given(ARGS[2])
def test_arguments_survive_being_written(arg: Arg) -> None:
    node = Node(name="n", op="call_function", args=(arg,), kwargs={"k": arg})
    assert encode(decode(encode(node), Node, "a node")) == encode(node)


@given(graphs(), st.randoms(use_true_random=False))
def test_names_are_no_structure(graph: Graph, source: Any) -> None:
    fresh = [f"new_{i}" for i in range(len(graph.nodes))]
    source.shuffle(fresh)
    name = dict(zip((node.name for node in graph.nodes), fresh, strict=True))
    other = renamed(graph, name.__getitem__)
    assert structure_digest(other) == structure_digest(graph)
    assert graph_digest(other) != graph_digest(graph)


@given(graphs(), st.data(), ORIGINS)
def test_handles_origins_and_tensor_names_are_no_structure(
    graph: Graph, data: st.DataObject, origin: Origin
) -> None:
    index = data.draw(st.integers(0, len(graph.nodes) - 1))
    other = with_node(graph, index, handle=(99,), origin=origin, tensors=("other@0",))
    assert structure_digest(other) == structure_digest(graph)


@given(graphs(), st.data())
def test_order_of_keyword_arguments_is_no_structure(graph: Graph, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(graph.nodes) - 1))
    kwargs = dict(reversed(graph.nodes[index].kwargs.items()))
    assert structure_digest(with_node(graph, index, kwargs=kwargs)) == structure_digest(graph)


@settings(max_examples=300)
@given(graphs(), st.data())
def test_every_other_field_is_structure(graph: Graph, data: st.DataObject) -> None:
    """The two digests are equal exactly if the two graphs are."""
    count = len(graph.nodes)
    index = data.draw(st.integers(0, count - 1))
    field = data.draw(st.sampled_from(sorted(FIELDS[count])))
    other = with_node(graph, index, **{field: data.draw(FIELDS[count][field])})
    same = encode(other) == encode(graph)
    assert (structure_digest(other) == structure_digest(graph)) == same


@given(graphs(), st.data())
def test_the_operator_is_structure_and_the_name_of_a_placeholder_is_not(
    graph: Graph, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(graph.nodes) - 1))
    other = with_node(graph, index, target=graph.nodes[index].target + "!")
    same = graph.nodes[index].op != "call_function"
    assert (structure_digest(other) == structure_digest(graph)) == same


@given(graphs(), ARGS[1], st.booleans())
def test_results_and_layout_are_structure(graph: Graph, value: Arg, stored: bool) -> None:
    longer = replace(graph, outputs=(*graph.outputs, Output(value=value)))
    assert structure_digest(longer) != structure_digest(graph)
    mutation = replace(longer, outputs=(*graph.outputs, Output(value=value, role="mutation")))
    assert structure_digest(mutation) != structure_digest(longer)
    other = replace(graph, stored_layout=stored)
    assert (structure_digest(other) == structure_digest(graph)) == (stored == graph.stored_layout)


@given(graphs())
def test_an_added_or_missing_node_is_structure(graph: Graph) -> None:
    added = Node(name="one that is new", op="call_function", target="aten.relu.default")
    digests = {
        structure_digest(graph),
        structure_digest(replace(graph, nodes=(*graph.nodes, added))),
        structure_digest(replace(graph, nodes=())),
    }
    assert len(digests) == 3


@settings(deadline=None)
@given(graphs())
def test_nodes_survive_the_lines_of_a_baseline(graph: Graph) -> None:
    bare = tuple(
        replace(node, handle=(), tensors=(), origin=replace(node.origin, source="")) for node in graph.nodes
    )
    data = nodes(bare)
    assert data.count(b"\n") == len(bare)
    assert read_nodes(data, "graph") == bare


@given(st.text("%x", max_size=3), st.sampled_from(["slice", "dtype"]))
def test_texts_that_look_like_something_else_survive_too(text: str, key: str) -> None:
    args = (text, Ref("x"), Seq((text, Ref(f"%{text}"))), Slice(None, text, 1), Atom("dtype", key))
    node = Node(name="n", op="call_function", target="", args=args)
    assert read_nodes(nodes([node]), "graph") == (node,)
