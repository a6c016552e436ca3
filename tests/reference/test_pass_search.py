"""A pass that is wrong is seeded into recordings made by hand; the search must find that one."""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace

from qnndbg.analyze.touched import touched
from qnndbg.capture.tensors import array_from_tensor
from qnndbg.model.attribution import PassChange
from qnndbg.model.graph import Atom, Graph, Node, Output, Ref, TensorRef, TensorSpec
from qnndbg.model.recording import Input, PassEvent, QnnGraph, Run, RunnerName, Stage
from qnndbg.pipeline.pass_search import search_passes
from tests.reference.conftest import Store
from tests.reference.programs import INPUT, call, encoding

X = torch.randn(64, generator=torch.Generator().manual_seed(0))
RELU, SCALE = call("relu", "aten.relu.default", Ref("x")), call("mul", "aten.mul.Tensor", Ref("relu"), 3.0)
LONGS = TensorSpec((2,), "int64")


def chain(*nodes: Node) -> Graph:
    return Graph(nodes=(INPUT, *nodes), outputs=(Output(value=Ref(nodes[-1].name)),))


RIGHT = chain(RELU, SCALE)
SAME = (
    chain(RELU, replace(SCALE, target="aten.multiply.Tensor")),
    chain(call("clamp", "aten.clamp_min.default", Ref("x"), 0.0), replace(SCALE, args=(Ref("clamp"), 3.0))),
)
"""Other graphs of the same numbers."""
WRONG = (
    chain(RELU, replace(SCALE, args=(Ref("relu"), 3.01))),
    chain(RELU, replace(SCALE, args=(Ref("relu"), 3.01), target="aten.multiply.Tensor")),
)


class Lowering:
    """A recording of one sample, filled pass by pass."""

    def __init__(self, store: Store, *inputs: torch.Tensor) -> None:
        self.store, self.digest, self.index = store, "", 0
        given = [Input(name=f"input {i}", tensor=self.tensor(x)) for i, x in enumerate(inputs)]
        store.writer.update_manifest(inputs=tuple(given))

    def tensor(self, value: torch.Tensor) -> TensorRef:
        return self.store.writer.tensor(*array_from_tensor(value))

    def begin(self, stage: Stage, graph: Graph, partition: int | None = None) -> None:
        self.digest = ""
        self.run_pass(stage, "", graph, partition)

    def run_pass(self, stage: Stage, name: str, graph: Graph, partition: int | None = None) -> None:
        after = self.store.writer.graph(graph)
        changed = bool(self.digest) and after != self.digest
        event = PassEvent(
            index=self.index, stage=stage, name=name, partition=partition, before=self.digest, after=after,
            changed=changed,
        )  # fmt: skip
        self.store.writer.pass_event(event)
        self.digest, self.index = after, self.index + 1

    def run(self, runner: RunnerName, *results: torch.Tensor) -> None:
        self.store.writer.run(Run(runner=runner, results=tuple(self.tensor(r) for r in results)))

    def found(self) -> tuple[PassChange, ...]:
        return search_passes(self.store.recording, "forward", 0)


def right() -> torch.Tensor:
    return X.relu() * 3


def wrong() -> torch.Tensor:
    return X.relu() * torch.tensor(3.01)


def lowered(store: Store, *graphs: Graph) -> Lowering:
    """Passes of the to-edge stage that leave these graphs, and the runs of both ends."""
    lowering = Lowering(store, X)
    lowering.begin("transform", RIGHT)
    for number, graph in enumerate(graphs):
        lowering.run_pass("transform", f"Pass{number}", graph)
    lowering.run("edge", right())
    return lowering


@pytest.mark.parametrize("before", range(4))
def test_seeded_pass_is_found_with_what_it_touched(before: int, store: Store) -> None:
    kept = [SAME[0], RIGHT, SAME[1], RIGHT][:before]
    last = kept[-1] if kept else RIGHT
    lowering = lowered(store, *kept, WRONG[0], WRONG[1])
    lowering.run("transform", wrong())
    (change,) = lowering.found()
    assert (change.name, change.event, change.stage) == (f"Pass{before}", before + 1, "transform")
    assert (change.after, change.before, change.narrowed) == ("edge", "transform", False)
    graphs = [store.recording.graph(digest) for digest in change.digests]
    assert graphs == [last, WRONG[0]]
    assert touched(*graphs).first == WRONG[0].nodes[-1]


def test_rungs_that_agree_are_not_searched(store: Store) -> None:
    lowering = lowered(store, *SAME)
    lowering.run("transform", right() * (1 + 1e-7))  # 140 dB
    assert lowering.found() == ()


def test_difference_that_no_snapshot_shows_has_no_pass(store: Store) -> None:
    lowering = lowered(store, *SAME)
    lowering.run("transform", wrong())
    assert lowering.found() == ()


def test_rung_that_is_missing_leaves_nothing_to_search(store: Store) -> None:
    assert lowered(store, WRONG[0]).found() == ()


def test_pass_inside_a_partition_is_found_in_the_whole_program(store: Store) -> None:
    lowering = Lowering(store, X)
    lowered_ = Node(name="lowered", op="get_attr", target="lowered_module_0")
    outer = chain(
        lowered_,
        call("call", "higher_order.executorch_call_delegate", Ref("lowered"), Ref("x"), multiple=True),
        call("get", "operator.getitem", Ref("call"), 0),
        call("neg", "aten.neg.default", Ref("get")),
    )
    lowering.begin("partition", replace(outer, partitions={"lowered_module_0": 0}))
    lowering.begin("preprocess", RIGHT, 0)
    for name, graph in (("Good", SAME[0]), ("Bad", WRONG[1]), ("Late", WRONG[0])):
        lowering.run_pass("preprocess", name, graph, 0)
    last = QnnGraph(method="forward", partition=0, graph=lowering.digest, ops=(), tensors=())
    store.writer.qnn_graph(last)
    lowering.run("transform", -right())
    lowering.run("reference", -wrong())
    (change,) = lowering.found()
    assert (change.name, change.stage, change.partition, change.before) == (
        "Bad",
        "preprocess",
        0,
        "reference",
    )


def test_export_is_compared_with_the_quantised_model_where_there_is_one(store: Store) -> None:
    lowering = Lowering(store, X)
    lowering.begin("export", WRONG[0])
    lowering.run_pass("export", "Good", WRONG[1])
    for runner, value in (("eager", right()), ("quantized", wrong()), ("export", wrong())):
        lowering.run(runner, value)  # type: ignore[arg-type]
    assert lowering.found() == ()


def test_annotation_passes_are_run_as_float_models(store: Store) -> None:
    rounds = encoding(0.5)
    lowering = Lowering(store, X)
    lowering.begin("annotation", RIGHT)
    # Rounding is what the next step does; this pass only says how.
    lowering.run_pass("annotation", "Annotate", chain(RELU, replace(SCALE, encoding=rounds)))
    lowering.run_pass("annotation", "Bad", chain(RELU, replace(WRONG[0].nodes[-1], encoding=rounds)))
    lowering.run("eager", right())
    lowering.run("annotation", wrong())
    (change,) = lowering.found()
    assert (change.name, change.before) == ("Bad", "annotation")


@pytest.mark.parametrize(("largest", "narrowed"), [(2**31, True), (2**31 - 1, False)])
def test_narrowing_of_values_beyond_int32(largest: int, narrowed: bool, store: Store) -> None:
    given = torch.tensor([largest, 5])
    long_input = replace(INPUT, outputs=(LONGS,))
    add = call("add", "aten.add.Tensor", Ref("x"), 1, outputs=(LONGS,))
    cast = call(
        "cast", "aten._to_copy.default", Ref("x"), kwargs={"dtype": Atom("dtype", "int32")},
        outputs=(TensorSpec((2,), "int32"),),
    )  # fmt: skip
    back = call(
        "back",
        "aten._to_copy.default",
        Ref("add"),
        kwargs={"dtype": Atom("dtype", "int64")},
        outputs=(LONGS,),
    )
    lowering = Lowering(store, given)
    outputs = (Output(value=Ref("add")),)
    lowering.begin("transform", Graph(nodes=(long_input, add), outputs=outputs))
    narrow = replace(add, args=(Ref("cast"), 1), outputs=(TensorSpec((2,), "int32"),))
    lowering.run_pass(
        "transform",
        "Narrow",
        Graph(nodes=(long_input, cast, narrow, back), outputs=(Output(value=Ref("back")),)),
    )
    lowering.run("edge", given + 1)
    lowering.run("transform", (given.int() + 1).long())
    changes = lowering.found()
    # 2**31 - 1 holds in int32, and wraps when one is added: wrong too, but nothing was narrowed away.
    assert [(c.name, c.narrowed) for c in changes] == [("Narrow", narrowed)]
