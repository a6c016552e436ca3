"""Lowers one net at fp16 through the way that is named: ``deprecated`` or ``current``."""

from __future__ import annotations

import sys
from typing import Any

import torch
from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    capture_program,
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from executorch.exir.backend.backend_api import to_backend
from torch import nn


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(nn.functional.hardswish(self.conv(image)).mean((2, 3)))
        return logits


def specs() -> Any:
    htp = generate_htp_compiler_spec(use_fp16=True)
    return generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)


if __name__ == "__main__":
    torch.manual_seed(0)
    net, inputs = Image().eval(), (torch.randn(1, 3, 8, 8),)
    if sys.argv[1] == "deprecated":
        program = capture_program(net, inputs)
        program.exported_program = to_backend(program.exported_program, QnnPartitioner(specs()))
        program.to_executorch()
    else:
        to_edge_transform_and_lower_to_qnn(net, inputs, specs()).to_executorch()
