"""The names of precision and SoC of a lowering that somebody's own code configured."""

from __future__ import annotations

from collections import Counter
from typing import Any

from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset, QnnExecuTorchHtpPrecision
from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS, QCOM_QUANT_MAX, QCOM_QUANT_MIN

from qnndbg.capture.lowering import Lowering

BIAS_BITS = 32


def soc_of(lowering: Lowering) -> str:
    """The chipset's name, such as ``SM8650``."""
    options = lowering.options
    return "" if options is None else QcomChipset(options.soc_info.soc_model).name


def precision_of(lowering: Lowering) -> str:
    """What most activations and weights have: ``fp16``, ``16a4w``, ``8a`` ...; read off the edge graph."""
    activations: Counter[int] = Counter()
    weights: Counter[int] = Counter()
    for program in lowering.edge_programs.values():
        for node in program.graph.nodes:
            bits = _bits(node.meta.get(QCOM_QUANT_ATTRS))
            if bits in {0, BIAS_BITS}:
                continue
            is_weight = node.op == "placeholder" and node.name not in program.graph_signature.user_inputs
            (weights if is_weight else activations)[bits] += 1
    options = lowering.options
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
