"""Lowers one net twice, in integers of two widths and in half floats.

``test_provenance.py`` knows its QNN tensors, and names a line of it by the comment behind it.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.qualcomm.quantizer.quantizer import (
    ModuleQConfig,
    QnnQuantizer,
    QuantDtype,
)
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

F = nn.functional


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.value = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.query(x)  # query
        value = self.value(x)  # value
        return F.scaled_dot_product_attention(query, query, value)  # sdpa


class Fine(nn.Module):
    """Kept at 16 bit, so that values are requantised where it begins and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.project(x))  # fine


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.act = nn.PReLU(8)
        self.attention = Attention()
        self.norm = nn.LayerNorm(8)
        self.fine = Fine()
        self.head = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.act(self.stem(image))  # conv
        x = F.hardsigmoid(x) + F.silu(x)  # gates
        x = x.flatten(2).transpose(1, 2)  # tokens
        x = self.norm(self.attention(x))  # norm
        x = self.fine(x)  # call of fine
        logits: torch.Tensor = self.head(x)  # head
        return logits


def lower(module: nn.Module, inputs: tuple[torch.Tensor], *, half: bool) -> None:
    htp = generate_htp_compiler_spec(use_fp16=half)
    specs = generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)
    to_edge_transform_and_lower_to_qnn(module, inputs, specs).to_executorch()


def in_fine(node: torch.fx.Node) -> bool:
    stack = node.meta.get("nn_module_stack") or {}
    return any(path.startswith("fine") for path, _ in stack.values())


def quantised(module: nn.Module, inputs: tuple[torch.Tensor]) -> Any:
    """8 bit activations, but for one module of 16 bit."""
    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype.use_8a8w)
    fine = ModuleQConfig(QuantDtype.use_16a8w)
    quantizer.set_submodule_qconfig_list([(in_fine, fine)])
    prepared = prepare_pt2e(torch.export.export(module, inputs, strict=True).module(), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


if __name__ == "__main__":
    torch.manual_seed(0)
    net, example = Net().eval(), (torch.randn(1, 3, 4, 4),)
    lower(quantised(net, example), example, half=False)
    lower(net, example, half=True)
