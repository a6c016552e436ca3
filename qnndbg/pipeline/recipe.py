"""Precision and SoC: from names that the installed ExecuTorch has to a quantiser and compile specs."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
)

from qnndbg.errors import UsageError

BLOCK = 32
"""Input channels that share a scale in per-block precisions, where that many divide them."""


def check(precision: str, soc: str) -> None:
    """Refuse names that the installed ExecuTorch does not have.

    Raises:
        UsageError: with the names that it has.
    """
    precisions = ["fp16", *(name.removeprefix("use_") for name in QuantDtype.__members__)]
    if precision not in precisions:
        raise UsageError(
            f"there is no precision {precision!r}", f"this executorch has: {', '.join(precisions)}"
        )
    socs = [name for name in QcomChipset.__members__ if not name.startswith("UNKNOWN")]
    if soc not in socs:
        raise UsageError(f"there is no SoC {soc!r}", f"this executorch has: {', '.join(sorted(socs))}")


def quantizer_for(
    precision: str, soc: str, graph: torch.fx.GraphModule, *, qat: bool = False
) -> tuple[QnnQuantizer, list[str]]:
    """The backend's quantiser with its defaults, and notes on what had to be chosen.

    Args:
        precision: a name of QuantDtype without ``use_``.
        soc: a name of QcomChipset.
        graph: the exported module, whose weights a per-block precision divides into blocks.
        qat: set up for quantisation-aware training.
    """
    extra = (
        {"soc_model": QcomChipset[soc]} if "soc_model" in inspect.signature(QnnQuantizer).parameters else {}
    )
    quantizer = QnnQuantizer(**extra)
    quantizer.set_default_quant_config(QuantDtype[f"use_{precision}"], is_qat=qat)
    if not precision.endswith("_block"):
        return quantizer, []
    blocks = _blocks(graph)
    quantizer.set_block_size_map(blocks)
    return quantizer, [
        f"per-block weights, {BLOCK} input channels a block, in {len(blocks)} ops whose channels that divides"
    ]


def _blocks(graph: torch.fx.GraphModule) -> dict[str, tuple[int, ...]]:
    found = {}
    for node in graph.graph.nodes:
        if node.target not in {torch.ops.aten.conv2d.default, torch.ops.aten.linear.default}:
            continue
        shape = node.args[1].meta["val"].shape
        if shape[1] % BLOCK == 0 and all(n == 1 for n in shape[2:]):
            found[node.name] = (1, BLOCK, *shape[2:])
    # The quantiser shares one configuration, so blocks of one rank only: those of the first op.
    rank = len(next(iter(found.values()), ()))
    return {name: block for name, block in found.items() if len(block) == rank}


def compile_specs(precision: str, soc: str) -> list[Any]:
    """Compile specs of the HTP backend.

    Args:
        precision: ``fp16...`` compiles for the half float runtime, all others for the quantised one.
        soc: a name of QcomChipset.
    """
    specs: list[Any] = generate_qnn_executorch_compiler_spec(
        soc_model=QcomChipset[soc],
        backend_options=generate_htp_compiler_spec(use_fp16=precision.startswith("fp16")),
    )
    return specs
