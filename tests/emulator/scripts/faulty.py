"""Models whose lowering goes wrong in one pass of the to-edge pipeline; as factories and as a script.

As a script, it lowers a sound model first. Argument: what the pass does, ``raise`` or ``kill``.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

import torch
from executorch.backends.qualcomm._passes import FixedLinearKeepDim
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor]]
PASS = FixedLinearKeepDim.__name__


def fail(*_args: object) -> NoReturn:
    raise RuntimeError("seeded fault")


def kill(*_args: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def made() -> Made:
    torch.manual_seed(0)
    return nn.Linear(4, 4).eval(), (torch.ones(1, 4),)


def raising() -> Made:
    """A pass raises."""
    FixedLinearKeepDim.call = fail
    return made()


def killed() -> Made:
    """A pass kills its process, as the kernel does where memory runs out."""
    FixedLinearKeepDim.call = kill
    return made()


def lower(module: nn.Module, inputs: tuple[torch.Tensor]) -> None:
    htp = generate_htp_compiler_spec(use_fp16=True)
    specs = generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)
    to_edge_transform_and_lower_to_qnn(module, inputs, specs).to_executorch()


if __name__ == "__main__":
    lower(*made())
    lower(*{"raise": raising, "kill": killed}[sys.argv[1]]())
