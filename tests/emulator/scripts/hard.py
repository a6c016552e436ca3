"""Lowers what the backend takes in part or not at all, each named by an argument.

``dynamic`` is a net with a batch of any length, ``mixed_shapes`` one whose second half no longer depends on
it, ``cond`` has control flow, ``custom`` an op of a library of its own, ``unfinished`` one that ExecuTorch
cannot emit.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from torch import nn

LIBRARY = torch.library.Library("qnndbg_tests", "DEF")
"""Ops that nobody else knows: ``triple`` with the out variant that ExecuTorch needs, ``double`` without."""
for _name, _factor in (("triple", 3.0), ("double", 2.0)):
    LIBRARY.define(f"{_name}(Tensor x) -> Tensor")
    LIBRARY.impl(_name, lambda x, factor=_factor: x * factor, "CompositeExplicitAutograd")
LIBRARY.define("triple.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.impl("triple.out", lambda x, *, out: out.copy_(x * 3.0), "CompositeExplicitAutograd")


class MixedShapes(nn.Module):
    """A part whose length is free, and one whose shape is fixed."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.fixed = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.free(x)), torch.relu(self.fixed(y))


class Cond(nn.Module):
    """Control flow that torch exports."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        result: torch.Tensor = torch.cond(y.sum() > 0, lambda v: v + 1.0, lambda v: v - 1.0, (y,))
        return result


class Custom(nn.Module):
    """A custom op between two that the HTP has.

    Args:
        name: of the op.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.op = getattr(torch.ops.qnndbg_tests, name).default
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.op(torch.relu(self.first(x))))
        return y


def lower(module: nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any) -> None:
    htp = generate_htp_compiler_spec(use_fp16=True)
    specs = generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)
    to_edge_transform_and_lower_to_qnn(module.eval(), inputs, specs, **options).to_executorch()


def dynamic() -> None:
    batch = torch.export.Dim("batch", min=1, max=16)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    lower(net, (torch.randn(3, 4),), dynamic_shapes=({0: batch},))


def mixed_shapes() -> None:
    batch = torch.export.Dim("batch", min=1, max=16)
    lower(MixedShapes(), (torch.randn(3, 4), torch.randn(1, 8)), dynamic_shapes=({0: batch}, None))


def cond() -> None:
    lower(Cond(), (torch.ones(1, 4),))


def custom() -> None:
    lower(Custom("triple"), (torch.randn(1, 4),))


def unfinished() -> None:
    lower(Custom("double"), (torch.randn(1, 4),))


def cond_net() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The same as a factory."""
    return Cond().eval(), (torch.ones(1, 4),)


def main(names: list[str]) -> None:
    """Go on behind a lowering that raises, and exit with how many did."""
    raised = 0
    for name in names:
        torch.manual_seed(0)
        try:
            globals()[name]()
        except Exception:  # noqa: BLE001 whatever ExecuTorch raises
            raised += 1
    sys.exit(raised)


if __name__ == "__main__":
    main(sys.argv[1:])
