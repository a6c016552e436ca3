"""The names of precision and SoC of a lowering that somebody's own code configured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset, QnnExecuTorchHtpPrecision
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS, QCOM_QUANT_MAX, QCOM_QUANT_MIN
from torch.export import ExportedProgram

from qnndbg.capture.lowering import Lowering

BIAS_BITS = 32


def soc_of(lowering: Lowering) -> str:
    """The chipset's name, such as ``SM8650``."""
    options = lowering.options
    return "" if options is None else QcomChipset(options.soc_info.soc_model).name


def precision_of(programs: Iterable[ExportedProgram], options: Any) -> str:
    """What most activations and weights have: ``fp16``, ``16a4w``, ``8a`` ...

    Args:
        programs: of the edge dialect with their encodings, or of ATen with quantise and dequantise ops.
        options: the backend's.
    """
    activations: Counter[int] = Counter()
    weights: Counter[int] = Counter()
    for program in programs:
        for node in program.graph.nodes:
            bits = _bits(node.meta.get(QCOM_QUANT_ATTRS)) or _bits_of_op(node)
            if bits in {0, BIAS_BITS}:
                continue
            source = node.args[0] if _is(node, "dequantize_") else node
            is_weight = source.op == "placeholder" and source.name not in program.graph_signature.user_inputs
            (weights if is_weight else activations)[bits] += 1
    half = options is not None and (
        options.backend_options.htp_options.precision == QnnExecuTorchHtpPrecision.kHtpFp16
    )
    if not weights and not activations:
        return "fp16" if half else "float"
    return ("fp16a" if half else _most(activations, "a")) + _most(weights, "w")


def _most(counter: Counter[int], letter: str) -> str:
    """Nothing where there are none, as a model of plain arithmetic has no weights."""
    return f"{counter.most_common(1)[0][0]}{letter}" if counter else ""


def _bits(attrs: Any) -> int:
    """Bits of an encoding's range; 0 without one."""
    return int(attrs[QCOM_QUANT_MAX] - attrs[QCOM_QUANT_MIN]).bit_length() if attrs else 0


def _bits_of_op(node: torch.fx.Node) -> int:
    """Bits of the range that a dequantise op has among its arguments; 0 of any other node."""
    if not _is(node, "dequantize_"):
        return 0
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    low, high = (given.get(f"quant_{end}", given.get(end)) for end in ("min", "max"))
    return int(high - low).bit_length() if isinstance(low, int) and isinstance(high, int) else 0


def _is(node: torch.fx.Node, kind: str) -> bool:
    name = str(node.target).split(".")
    return node.op == "call_function" and len(name) > 1 and name[1].startswith(kind)
