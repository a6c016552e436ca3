"""Lowers, once in a forked child and once itself, and leaves everything that it was given in disorder."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
import warnings

import torch
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from torch import nn


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def lower(module: nn.Module) -> None:
    htp = generate_htp_compiler_spec(use_fp16=True)
    specs = generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)
    to_edge_transform_and_lower_to_qnn(module.eval(), (torch.ones(1, 4),), specs)


if __name__ == "__main__":
    sys.stdout.write(f"script: got {sys.stdin.read()!r}\n")
    atexit.register(lambda: os.write(1, b"script: at exit\n"))
    sys.stdout.flush()
    lower(Double())
    child = os.fork()
    if child == 0:
        lower(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        os._exit(0)
    sys.stdout.write(f"script: child gave {os.waitpid(child, 0)[1]}\n")
    sys.stdout.flush()
    sys.path.clear()
    warnings.simplefilter("error")
    torch.set_default_dtype(torch.float16)
    torch.set_default_device("meta")
    sys.stdout = sys.stderr = None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
