"""Lowers in each of the ways that are named on the command line; knows nothing of qnndbg."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from executorch.backends.qualcomm._passes import FixedLinearKeepDim
from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
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

SMALL, LARGE = (1, 3, 8, 8), (1, 3, 16, 16)


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(nn.functional.hardswish(self.conv(image)).mean((2, 3)))
        return logits


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(torch.relu(self.first(x)) + 1.0)
        return y


class Rank6(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x)).view(1, 2, 2, 2, 2, 1)
        return x.permute(0, 3, 1, 4, 2, 5)


def specs(**options: Any) -> Any:
    """Of half floats."""
    htp = generate_htp_compiler_spec(use_fp16=True, **options)
    return generate_qnn_executorch_compiler_spec(soc_model=QcomChipset.SM8650, backend_options=htp)


def seeded(module: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return module().eval()


def row() -> tuple[torch.Tensor]:
    return (torch.randn(2, 8),)


def deprecated() -> None:
    """The way before ``to_edge_transform_and_lower_to_qnn`` was."""
    program = capture_program(seeded(Image), (torch.randn(SMALL),))
    program.exported_program = to_backend(program.exported_program, QnnPartitioner(specs()))
    program.to_executorch()


def skip_op() -> None:
    """A kind of op that the caller keeps off the HTP, in the middle of the net."""
    to_edge_transform_and_lower_to_qnn(
        seeded(Plain), row(), specs(), skip_node_op_set={"aten.relu.default"}
    ).to_executorch()


def skip_id() -> None:
    """One node that the caller keeps off the HTP."""
    to_edge_transform_and_lower_to_qnn(
        seeded(Plain), row(), specs(), skip_node_id_set={"aten_add_tensor"}
    ).to_executorch()


def skip_all() -> None:
    """All of it, so that nothing is delegated."""
    to_edge_transform_and_lower_to_qnn(
        seeded(nn.ReLU), row(), specs(), skip_node_op_set={"aten.relu.default"}
    ).to_executorch()


def refused() -> None:
    """A partition that QNN does not compile, since no input of the model reaches it."""
    names = {"aten.relu.default", "aten.add.Tensor", "aten.linear.default"}
    to_edge_transform_and_lower_to_qnn(seeded(Plain), row(), specs(), skip_node_op_set=names).to_executorch()


def without_a_pass() -> None:
    """A pass that the caller switched off."""
    job = get_qnn_pass_manager_cls().get_capture_program_passes()
    job[FixedLinearKeepDim]["activate"] = False
    to_edge_transform_and_lower_to_qnn(seeded(Plain), row(), specs(), passes_job=job).to_executorch()


def rank6() -> None:
    """An op that QNN's validator refuses."""
    to_edge_transform_and_lower_to_qnn(seeded(Rank6), (torch.randn(1, 8),), specs()).to_executorch()


def methods(**options: Any) -> None:
    """Two methods of one program."""
    image = seeded(Image)
    to_edge_transform_and_lower_to_qnn(
        {"small": image, "large": image},
        {"small": (torch.randn(SMALL),), "large": (torch.randn(LARGE),)},
        {"small": specs(**options), "large": specs(**options)},
    ).to_executorch()


def shared() -> None:
    """Two methods that share their weights."""
    methods(use_weight_sharing=True)


def never_emitted() -> None:
    """What is delegated only."""
    to_edge_transform_and_lower_to_qnn(seeded(Plain), row(), specs())


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        *(deprecated, skip_op, skip_id, skip_all, without_a_pass),
        *(rank6, methods, shared, never_emitted, refused),
    )
}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        WAYS[name]()
