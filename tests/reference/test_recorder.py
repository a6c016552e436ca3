"""What the recorder leaves of passes that do, or say that they do, this or that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from torch import nn
from torch.fx.passes.infra.pass_base import PassBase, PassResult

from qnndbg.capture.recorder import Recorder
from qnndbg.model.graph import Graph
from qnndbg.model.recording import PassEvent, Stage
from tests.reference.conftest import Store

RELU, NEG = torch.ops.aten.relu.default, torch.ops.aten.neg.default
X = torch.ones(2, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


class Toy(PassBase):
    """A pass that does something to a graph and says that it modified it or not."""

    def __init__(self, change: Callable[[torch.fx.GraphModule], None], *, claims: bool) -> None:
        self.change, self.claims = change, claims

    def call(self, graph_module: torch.fx.GraphModule) -> PassResult:
        self.change(graph_module)
        graph_module.recompile()
        return PassResult(graph_module, self.claims)


def nothing(_module: torch.fx.GraphModule) -> None:
    return None


def find(module: torch.fx.GraphModule, name: str) -> torch.fx.Node:
    nodes: list[torch.fx.Node] = list(module.graph.nodes)
    return next(node for node in nodes if node.name == name)


def retarget(module: torch.fx.GraphModule) -> None:
    find(module, "relu").target = NEG


def rename(module: torch.fx.GraphModule) -> None:
    find(module, "relu").name = "another"


def invent(module: torch.fx.GraphModule) -> None:
    relu = find(module, "relu")
    with module.graph.inserting_after(relu):
        made = module.graph.create_node("call_function", NEG, (relu,), name="invented")
    relu.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)


def halve_weight(module: torch.fx.GraphModule) -> None:
    with torch.no_grad():
        module.fc.weight.mul_(0.5)  # type: ignore[union-attr, operator]


class Lowering:
    """A module, a recorder that watches what is done to it, and the recording."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.told: list[PassEvent] = []
        self.recorder = Recorder(store.writer, self.told.append)
        self.module: Any = torch.export.export(Net().eval(), (X,), strict=True).module()

    def stage(self, stage: Stage = "annotation", **options: Any) -> AbstractContextManager[None]:
        return self.recorder.stage(stage, self.module, **options)

    def run(self, name: str, change: Callable[[torch.fx.GraphModule], None], *, claims: bool = True) -> Any:
        toy = Toy(change, claims=claims)
        return self.recorder.run_pass(name, lambda: toy(self.module), self.module)

    @property
    def events(self) -> tuple[PassEvent, ...]:
        return self.store.recording.passes

    def after(self, event: PassEvent) -> Graph:
        return self.store.recording.graph(event.after)

    def files(self, folder: str) -> int:
        return len(list((self.store.writer.folder / folder).iterdir()))


@pytest.fixture
def lowering(store: Store) -> Lowering:
    return Lowering(store)


def test_stage_begins_with_a_snapshot(lowering: Lowering) -> None:
    with lowering.stage("annotation", method="decode"):
        pass
    (event,) = lowering.events
    assert (event.index, event.stage, event.name, event.method) == (0, "annotation", "", "decode")
    assert (event.before, event.changed, event.claimed_modified, event.error) == ("", False, None, "")
    assert [n.target for n in lowering.after(event).nodes if n.op == "call_function"] == [
        "aten.linear.default",
        "aten.relu.default",
    ]


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize(
    ("change", "changed", "stored_anew"),
    [
        (nothing, False, False),
        (retarget, True, True),
        (invent, True, True),
        (halve_weight, True, True),
        (rename, False, True),
    ],
)
def test_what_a_pass_did_is_told_from_what_it_says(
    lowering: Lowering,
    change: Callable[[torch.fx.GraphModule], None],
    changed: bool,
    stored_anew: bool,
    claims: bool,
) -> None:
    with lowering.stage():
        result = lowering.run("Toy", change, claims=claims)
    assert (result.graph_module, result.modified) == (lowering.module, claims)
    begin, event = lowering.events
    assert (event.index, event.name, event.changed, event.claimed_modified) == (1, "Toy", changed, claims)
    assert event.before == begin.after
    assert (event.after != event.before) == stored_anew
    assert event.seconds > 0


def test_each_pass_begins_where_the_one_before_ended(lowering: Lowering) -> None:
    with lowering.stage():
        for name, change in (("One", retarget), ("Two", nothing), ("Three", rename), ("Four", nothing)):
            lowering.run(name, change)
    events = lowering.events
    assert [e.name for e in events] == ["", "One", "Two", "Three", "Four"]
    assert [e.changed for e in events] == [False, True, False, False, False]
    assert [e.before for e in events[1:]] == [e.after for e in events[:-1]]
    assert events[4].after == events[3].after != events[2].after
    assert lowering.files("graphs") == 3


def test_pass_may_return_a_new_module_or_nothing_at_all(lowering: Lowering) -> None:
    other = torch.fx.GraphModule(lowering.module, torch.fx.Graph())
    other.graph.graph_copy(lowering.module.graph, {})
    other.graph.output(())
    with lowering.stage():
        lowering.recorder.run_pass("New", lambda: PassResult(other, True), lowering.module)
        assert lowering.recorder.run_pass("None", lambda: None, lowering.module) is None
    new, none = lowering.events[1:]
    assert lowering.after(new).outputs == ()
    assert (none.claimed_modified, len(lowering.after(none).outputs)) == (None, 1)


def test_failing_pass_leaves_what_it_was_made_with(lowering: Lowering) -> None:
    class Made:
        def __init__(self) -> None:
            self.edge_program = lowering.module
            self.level, self.ops = 3, {torch.ops.aten.relu.default, torch.ops.aten.add.Tensor}
            self.table = {"scale": [0.5, None], "long": "x" * 500}

    with pytest.raises(ZeroDivisionError), lowering.stage("transform"):
        lowering.recorder.run_pass("Made", lambda: 1 / 0, lowering.module, Made())
    arguments = lowering.events[-1].arguments
    assert list(arguments) == ["edge_program", "level", "ops", "table"]
    assert (arguments["level"], arguments["ops"]) == ("3", "{aten.add.Tensor, aten.relu.default}")
    assert arguments["edge_program"] == type(lowering.module).__name__
    assert arguments["table"].startswith("{'scale': [0.5, None], 'long': 'xxx")
    assert len(arguments["table"]) == 200


def test_pass_that_fails_leaves_an_event_and_its_exception(lowering: Lowering) -> None:
    raised = KeyError("val")

    def fail(_module: torch.fx.GraphModule) -> None:
        raise raised

    with pytest.raises(KeyError) as caught, lowering.stage("transform"):
        lowering.run("Failing", fail)
    assert caught.value is raised
    begin, event = lowering.events
    assert (event.name, event.error) == ("Failing", "KeyError: 'val'")
    assert (event.before, event.after, event.changed) == (begin.after, "", False)
    assert lowering.recorder.failed == event
    assert lowering.recorder.scope is None
    with lowering.stage("export"):  # and recording goes on
        lowering.run("Next", nothing, claims=False)
    assert [e.name for e in lowering.events] == ["", "Failing", "", "Next"]


def test_interrupted_pass_leaves_an_event_too(lowering: Lowering) -> None:
    def interrupt(_module: torch.fx.GraphModule) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), lowering.stage("transform"):
        lowering.run("Slow", interrupt)
    assert lowering.events[1].error.startswith("KeyboardInterrupt")


def test_passes_inside_a_pass_leave_one_event(lowering: Lowering) -> None:
    def nested(inner: torch.fx.GraphModule) -> None:
        lowering.run("Inner", retarget)
        lowering.run("Inner", invent)

    with lowering.stage():
        lowering.run("Outer", nested, claims=False)
        lowering.run("Last", nothing, claims=False)
    assert [(e.index, e.name, e.changed) for e in lowering.events] == [
        (0, "", False),
        (1, "Outer", True),
        (2, "Last", False),
    ]


def test_pass_that_fails_inside_a_pass_leaves_one_event(lowering: Lowering) -> None:
    def failing(inner: torch.fx.GraphModule) -> None:
        lowering.recorder.run_pass("Inner", lambda: 1 / 0, inner)

    with pytest.raises(Exception, match="division by zero"), lowering.stage():
        lowering.run("Outer", failing, claims=False)
    assert [(e.name, "division by zero" in e.error) for e in lowering.events] == [
        ("", False),
        ("Outer", True),
    ]


def test_passes_outside_of_any_stage_leave_nothing(lowering: Lowering) -> None:
    assert lowering.run("Stray", retarget).modified
    lowering.recorder.border("stray", lowering.module)
    assert lowering.events == ()


def test_stage_inside_a_stage_belongs_to_it(lowering: Lowering) -> None:
    with lowering.stage():
        assert not lowering.recorder.enter("export", lowering.module)
        with lowering.stage("transform"):
            lowering.run("Toy", nothing, claims=False)
        lowering.recorder.leave("export")
        lowering.run("Toy", nothing, claims=False)
    assert [e.stage for e in lowering.events] == ["annotation"] * 3
    assert (lowering.recorder.scope, lowering.recorder.latest) == (None, "annotation")


def test_border_shows_what_no_pass_did(lowering: Lowering) -> None:
    with lowering.stage("export"):
        retarget(lowering.module)
        lowering.recorder.border("lift_constants", lowering.module, seconds=0.5)
        lowering.recorder.border("again", lowering.module)
    events = lowering.events
    assert [(e.name, e.changed) for e in events] == [("", False), ("lift_constants", True), ("again", False)]
    assert (events[1].seconds, events[1].before) == (0.5, events[0].after)


def test_node_that_a_pass_invented_is_traced_to_it_ever_after(lowering: Lowering) -> None:
    with lowering.stage():
        lowering.run("Inventor", invent)
        lowering.run("Other", retarget)
    with lowering.stage("transform"):
        pass
    for event in lowering.events[1:]:
        made_by = {n.name: n.origin.created_by for n in lowering.after(event).nodes if n.origin.created_by}
        assert made_by == {"invented": "Inventor"}


def test_what_is_made_of_the_users_nodes_at_a_border_is_not_invented(lowering: Lowering) -> None:
    program = torch.export.export(Net().eval(), (X,), strict=True)
    with lowering.recorder.stage("edge", program):
        lowering.recorder.border("to_edge", to_edge(program).exported_program())
    graph = lowering.after(lowering.events[-1])
    assert {node.target for node in graph.nodes} >= {"aten.addmm.default", "aten.relu.default"}
    assert {node.origin.created_by for node in graph.nodes} == {""}


def test_layout_is_stored_once_a_layout_pass_has_made_it_so(lowering: Lowering) -> None:
    def lay_out(module: torch.fx.GraphModule) -> None:
        find(module, "relu").meta["axis_order"] = (1, 0)

    # The to-edge passes leave axis orders that mean nothing yet, and preprocess begins by dropping them.
    lay_out(lowering.module)
    with lowering.stage("preprocess", partition=0):
        del find(lowering.module, "relu").meta["axis_order"]
        lowering.run("Other", nothing)
        lowering.run("LayoutTransform", lay_out)
        lowering.run("Last", nothing)
    assert [lowering.after(event).stored_layout for event in lowering.events] == [False, False, True, True]


def test_methods_and_partitions_are_kept_apart(lowering: Lowering) -> None:
    for method, partition in (("encode", None), ("decode", None), ("encode", 1)):
        with lowering.stage("preprocess", method=method, partition=partition):
            lowering.run("Toy", nothing, claims=False)
    assert [(e.method, e.partition) for e in lowering.events] == [
        ("encode", None),
        ("encode", None),
        ("decode", None),
        ("decode", None),
        ("encode", 1),
        ("encode", 1),
    ]
    assert lowering.store.recording.last_graph("preprocess", "encode", 1) is not None


def test_program_knows_its_weights_while_passes_work_on_its_module(lowering: Lowering) -> None:
    program = torch.export.export(Net().eval(), (X,), strict=True)
    lowering.module = program.graph_module
    with lowering.recorder.stage("transform", program):
        lowering.run("Toy", retarget)
    for event in lowering.events:
        roles = [n.role for n in lowering.after(event).nodes if n.op == "placeholder"]
        assert roles == ["parameter", "parameter", "input"]


def test_weights_are_stored_once_over_all_passes(lowering: Lowering) -> None:
    with lowering.stage():
        for _ in range(3):
            lowering.run("Toy", invent)
        assert lowering.files("tensors") == 2
        lowering.run("Halver", halve_weight)
        assert lowering.files("tensors") == 3


def test_events_are_told_as_they_happen(lowering: Lowering) -> None:
    with lowering.stage():
        assert len(lowering.told) == 1
        lowering.run("Toy", retarget)
        assert len(lowering.told) == 2
    assert tuple(lowering.told) == lowering.events
    assert lowering.recorder.count == 2


def test_every_snapshot_can_be_evaluated_again(lowering: Lowering) -> None:
    with lowering.stage():
        for name, change in (("Retarget", retarget), ("Invent", invent), ("Rename", rename)):
            lowering.run(name, change)
    with torch.no_grad():
        hidden = nn.functional.linear(X, lowering.module.fc.weight, lowering.module.fc.bias)
    expected = [hidden.relu(), -hidden, hidden, hidden]
    for event, value in zip(lowering.events, expected, strict=True):
        walk = lowering.store.evaluate(lowering.after(event), (X,))
        assert walk.problems == {}
        torch.testing.assert_close(walk.results, [value], rtol=0, atol=0)
