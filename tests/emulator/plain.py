"""Lowers and executes the way ExecuTorch's own guide does; knows nothing of qnndbg.

Arguments: the SDK's folder, the file to write, and ``file.py:factory=precision`` for each model. The
file holds output N of the M-th model as ``M.N``.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(sdk: str, out: str, *jobs: str) -> None:
    """Lower and execute each model, in order."""
    os.environ["QNN_SDK_ROOT"] = sdk
    import torch

    for library in ("libQnnSystem.so", "libQnnHtp.so"):
        ctypes.CDLL(f"{sdk}/lib/x86_64-linux-clang/{library}")
    found: dict[str, Any] = {}
    for number, job in enumerate(jobs):
        target, _, precision = job.partition("=")
        module, inputs, *more = factory(target)()
        if precision != "fp16":
            module = quantised(module, inputs, more[0] if more else [inputs], precision)
        for index, output in enumerate(executed(module, inputs, half=precision == "fp16")):
            found[f"{number}.{index}"] = torch.as_tensor(output).numpy()
    np.savez(out, **found)


def factory(target: str) -> Any:
    """Import the function from its file."""
    path, _, name = target.partition(":")
    sys.path.insert(0, str(Path(path).parent))
    return getattr(importlib.import_module(Path(path).stem), name)


def quantised(module: Any, inputs: Any, calibration: Any, precision: str) -> Any:
    """Post-training quantisation with the backend's quantiser and its defaults."""
    import torch
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = QnnQuantizer()
    quantizer.set_default_quant_config(QuantDtype[f"use_{precision}"])
    prepared = prepare_pt2e(torch.export.export(module, inputs, strict=True).module(), quantizer)
    for sample in calibration:
        prepared(*sample)
    return convert_pt2e(prepared)


def executed(module: Any, inputs: Any, *, half: bool) -> Any:
    """Outputs of the program on the emulator."""
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import (
        generate_htp_compiler_spec,
        generate_qnn_executorch_compiler_spec,
        to_edge_transform_and_lower_to_qnn,
    )
    from executorch.runtime import Runtime

    specs = generate_qnn_executorch_compiler_spec(
        soc_model=QcomChipset.SM8650, backend_options=generate_htp_compiler_spec(use_fp16=half)
    )
    buffer = to_edge_transform_and_lower_to_qnn(module, inputs, specs).to_executorch().buffer
    program = Runtime.get().load_program(buffer)
    return [output.clone() for output in program.load_method("forward").execute(list(inputs))]


if __name__ == "__main__":
    main(*sys.argv[1:])
