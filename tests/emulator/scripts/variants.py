"""Lowers one small net in a variant: ``plain``, or with one thing about it changed.

The variants: ``skip`` keeps an op off the HTP, ``pass`` switches a to-edge pass off, ``calibration`` shows
the quantiser other inputs, ``weight`` changes one weight. All but the last two lower the very same module.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from executorch.backends.qualcomm._passes import ExpandBroadcastTensorShape
from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from torch import nn
from torch.export import export
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(torch.relu(self.first(x)) + 0.5)
        return y


def options(variant: str) -> dict[str, Any]:
    """What to_edge_transform_and_lower_to_qnn gets beside the plain variant's arguments."""
    if variant == "skip":
        return {"skip_node_op_set": {"aten.relu.default"}}
    if variant == "pass":
        job = get_qnn_pass_manager_cls().get_capture_program_passes()
        job[ExpandBroadcastTensorShape]["activate"] = False
        return {"passes_job": job}
    return {}


if __name__ == "__main__":
    (variant,) = sys.argv[1:]
    torch.manual_seed(0)
    net, inputs = Net().eval(), (torch.randn(1, 6, 8),)
    if variant == "weight":
        net.last.weight.data[0, 0] += 1.0
    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype.use_8a8w)
    prepared = prepare_pt2e(export(net, inputs, strict=True).module(), quantizer)
    prepared(*inputs)
    if variant == "calibration":
        prepared(inputs[0] * 3)
    htp = generate_htp_compiler_spec(use_fp16=False)
    specs = generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)
    lowered = to_edge_transform_and_lower_to_qnn(convert_pt2e(prepared), inputs, specs, **options(variant))
    lowered.to_executorch()
