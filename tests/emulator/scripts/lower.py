"""Quantises and lowers, as a script of a user's does.

Arguments: the file to write, and the exit code.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
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
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(nn.functional.hardswish(self.conv(image)).mean((2, 3)))
        return logits


if __name__ == "__main__":
    sys.stdout.write(f"script: called as {sys.argv}\n")
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 8, 8),)
    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype.use_8a8w)
    prepared = prepare_pt2e(export(Net().eval(), inputs, strict=True).module(), quantizer)
    prepared(*inputs)
    htp = generate_htp_compiler_spec(use_fp16=False)
    specs = generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8550, backend_options=htp)
    program = to_edge_transform_and_lower_to_qnn(convert_pt2e(prepared), inputs, specs).to_executorch()
    Path(sys.argv[1]).write_bytes(program.buffer)
    sys.stdout.write(f"script: wrote {len(program.buffer)} bytes to {sys.argv[1]}\n")
    sys.stderr.write("script: done\n")
    sys.exit(int(sys.argv[2]))
