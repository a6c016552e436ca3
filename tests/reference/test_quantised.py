"""Models that ExecuTorch's own quantiser converted: the stored graph computes what the module does."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from qnndbg.model.graph import Graph, Node, Ref
from qnndbg.pipeline import recipe
from tests.reference.conftest import Store

pytestmark = pytest.mark.usefixtures("sdk_root")
X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Activations, a residual, a norm, ops of several outputs, and results that are no floats."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.mix = nn.Conv2d(8, 8, 1)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = functional.hardswish(self.conv(x))
        x = functional.gelu(self.norm(functional.relu6(self.mix(x)) + x))
        a, b = torch.split(x, 4, 1)
        logits = self.head(a * b)
        return (logits, *torch.topk(logits.flatten(1), 3), logits > 0)


def converted(module: nn.Module, x: torch.Tensor, precision: str) -> torch.fx.GraphModule:
    graph = torch.export.export(module.eval(), (x,), strict=True).module()
    quantizer, _ = recipe.quantizer_for(precision, "SM8650", graph)
    prepared = prepare_pt2e(graph, quantizer)
    with torch.no_grad():
        prepared(x)
    made: torch.fx.GraphModule = convert_pt2e(prepared)
    return made


def same(found: list[object], expected: list[torch.Tensor]) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def called(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        return list(torch.utils._pytree.tree_leaves(module(x)))


@pytest.mark.parametrize("precision", ["16a8w", "8a8w", "16a4w"])
def test_stored_graph_computes_what_the_quantised_module_does(store: Store, precision: str) -> None:
    torch.manual_seed(0)
    module = converted(Net(), X, precision)
    graph = store.snapshot(module)
    assert any(".quantize_per_tensor" in node.target for node in graph.nodes)
    for x in (X, X * 3):  # the second one is clipped
        walk = store.evaluate(graph, (x,))
        assert walk.problems == {}
        same(walk.results, called(module, x))


def test_stored_graph_of_weights_in_blocks_computes_what_the_module_does(store: Store) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 64, 4, 4)
    module = converted(nn.Sequential(nn.Conv2d(64, 32, 1), nn.ReLU()), x, "16a4w_block")
    graph = store.snapshot(module)
    assert "torchao.dequantize_affine" in {node.target for node in graph.nodes}
    walk = store.evaluate(graph, (x,))
    assert walk.problems == {}
    same(walk.results, called(module, x))


def weights(store: Store, graph: Graph) -> dict[str, torch.Tensor]:
    """Dequantised by the formula: dequantise node to ``(integer - zero point) * scale``."""
    nodes = {node.name: node for node in graph.nodes}
    found = {}
    for node in graph.nodes:
        source = node.args[0] if node.args else None
        held: Node | None = nodes[source.node] if isinstance(source, Ref) else None
        if ".dequantize_per_tensor" in node.target and held is not None and held.constant is not None:
            scale, zero_point = node.args[1:3]
            assert isinstance(scale, float)
            assert isinstance(zero_point, int)
            found[node.name] = (store.load(held.constant).float() - zero_point) * scale
    return found


def test_float_meaning_is_the_eager_model_of_the_dequantised_weights(store: Store) -> None:
    torch.manual_seed(0)
    graph = store.snapshot(converted(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Hardswish()), X, "8a8w"))
    weight, bias = weights(store, graph).values()
    assert (weight.shape, bias.shape) == ((4, 3, 3, 3), (4,))
    walk = store.evaluate(graph, (X,), "float")
    same(walk.results, [functional.hardswish(functional.conv2d(X, weight, bias))])
    assert not torch.equal(walk.results[0], store.evaluate(graph, (X,)).results[0])


def test_every_activation_is_on_the_grid_of_its_encoding(store: Store) -> None:
    torch.manual_seed(0)
    graph = store.snapshot(converted(Net(), X, "8a8w"))
    values = store.evaluate(graph, (X,)).values
    rounding = [node for node in graph.nodes if ".quantize_per_tensor" in node.target]
    assert len(rounding) > 8
    for node in rounding:
        scale, zero_point, low, high = node.args[1:5]
        assert isinstance(scale, float)
        steps = values[node.name, 0].double() / scale
        assert float((steps - steps.round()).abs().max()) < 1e-3
        assert float(steps.min()) >= low - zero_point - 0.5  # type: ignore[operator]
        assert float(steps.max()) <= high - zero_point + 0.5  # type: ignore[operator]
