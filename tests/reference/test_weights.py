"""Which tensors a snapshot binds to which node, and that each is stored once."""

from __future__ import annotations

import torch
from torch import nn

from tests.reference.conftest import Store


class Tied(nn.Module):
    """Two layers of one weight, a buffer that is written and one that is not."""

    written: torch.Tensor
    kept: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.register_buffer("written", torch.zeros(4))
        self.register_buffer("kept", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.two(self.one(x)) + self.kept + torch.tensor([1.0, 2.0, 3.0, 4.0])
        self.written.add_(x.sum(0))
        return x * self.written


def test_placeholders_know_what_they_stand_for(store: Store) -> None:
    module = Tied()
    program = torch.export.export(module, (torch.ones(2, 4),), strict=True).run_decompositions({})
    graph = store.snapshot(program)
    roles = {node.name: node.role for node in graph.nodes if node.op == "placeholder"}
    assert sorted(roles.values()) == ["buffer", "constant", *["input"], *["parameter"] * 3, "state"]
    (state,) = (name for name, role in roles.items() if role == "state")
    held = {
        role: [store.load(n.constant) for n in graph.nodes if n.role == role and n.constant is not None]
        for role in ("parameter", "buffer", "constant", "state")
    }
    assert [t.shape for t in held["parameter"]] == [(4, 4), (4,), (4,)]
    assert torch.equal(held["parameter"][0], module.one.weight)
    assert torch.equal(held["buffer"][0], module.kept)
    assert torch.equal(held["constant"][0], torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert torch.equal(held["state"][0], torch.zeros(4))
    assert [(o.role, o.target) for o in graph.outputs] == [("mutation", state), ("output", "")]
    assert [n.constant for n in graph.nodes if n.role == "input"] == [None]


def test_module_of_attributes_holds_them_as_constants(store: Store) -> None:
    linear = nn.Linear(4, 2)
    graph = store.snapshot(torch.export.export(linear, (torch.ones(1, 4),), strict=True).module())
    held = {
        n.target: store.load(n.constant) for n in graph.nodes if n.op == "get_attr" and n.constant is not None
    }
    assert torch.equal(held["weight"], linear.weight)
    assert torch.equal(held["bias"], linear.bias)
    assert [n.role for n in graph.nodes if n.op == "placeholder"] == ["input"]


def tensors_of(store: Store) -> int:
    return len(list((store.writer.folder / "tensors").iterdir()))


def test_weight_is_stored_once_and_again_when_it_changed(store: Store) -> None:
    linear = nn.Linear(4, 2, bias=False)
    module = torch.export.export(linear, (torch.ones(1, 4),), strict=True).module()
    first = store.snapshot(module)
    assert store.snapshot(module) == first
    assert tensors_of(store) == 1
    with torch.no_grad():
        module.weight.mul_(2)  # type: ignore[operator]
    second = store.snapshot(module)
    assert tensors_of(store) == 2
    refs = [g.nodes[0].constant for g in (first, second)]
    assert refs[0] is not None
    assert refs[1] is not None
    assert torch.equal(store.load(refs[1]), store.load(refs[0]) * 2)


def test_weight_whose_data_was_replaced_is_stored_again(store: Store) -> None:
    weight = nn.Parameter(torch.ones(3))
    first = store.weights.ref(weight)
    weight.data = torch.zeros(3)
    assert store.weights.ref(weight) != first


def test_weight_that_was_made_for_inference_only_is_stored(store: Store) -> None:
    with torch.inference_mode():
        weight = torch.ones(3)
    assert store.weights.ref(weight) is not None


def test_tensor_without_bytes_is_no_constant(store: Store) -> None:
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(3))
    assert store.weights.ref(fake) is None
    assert store.weights.ref(torch.ones(3, device="meta")) is None


def test_snapshot_leaves_the_graph_as_it_was(store: Store) -> None:
    program = torch.export.export(Tied(), (torch.ones(2, 4),), strict=True)
    before = program.graph_module.code, [dict(n.meta) for n in program.graph.nodes]
    store.snapshot(program)
    after = program.graph_module.code, [dict(n.meta) for n in program.graph.nodes]
    assert before[0] == after[0]
    assert [m.keys() for m in before[1]] == [m.keys() for m in after[1]]
