"""Owns the smallest job that shows whether this ExecuTorch and this QNN SDK work together.

It compiles and runs for real: which versions go together is not in their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from qnndbg.errors import SdkError
from qnndbg.execute.sdk import activate, build_id, find_sdk

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager
    from torch import Tensor
    from torch.nn import Module

JOB = "qnndbg.execute.probe:probe"
"""The job's name for :func:`qnndbg.execute.worker.run_job`."""
SOC = "SM8650"
TOLERANCE = 0.01
"""Largest absolute error taken; the results are below 1, where fp16 is good for 0.0005."""


def probe(payload: Mapping[str, object], report: Callable[[dict[str, object]], None]) -> dict[str, object]:
    """Lower a linear layer with ReLU in fp16, run it on the HTP emulator, compare with torch.

    Args:
        payload: ``sdk``, the SDK's path or None.
        report: gets ``step`` as the job goes on, and ``build_id`` once it is known.

    Returns:
        ``max_abs``: the largest difference between the emulator and torch.

    Raises:
        SdkError: nothing was found, the pair cannot compile or run, or it computes nonsense.
    """
    path = payload["sdk"]
    sdk = find_sdk(None if path is None else str(path))
    report({"step": "load"})
    activate(sdk)
    report({"step": "lower", "build_id": build_id(sdk)})
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    inputs = (torch.linspace(-1, 1, 8).reshape(1, 8),)
    program = _lower(model, inputs)
    report({"step": "run"})
    difference = float((_run(program, inputs) - model(*inputs)).abs().max())
    if not difference <= TOLERANCE:
        raise SdkError(f"the HTP emulator is off by {difference:.3g} from torch on a tiny model")
    return {"max_abs": difference}


def _lower(model: Module, inputs: tuple[Tensor, ...]) -> EdgeProgramManager:
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils.utils import (
        generate_htp_compiler_spec,
        generate_qnn_executorch_compiler_spec,
        to_edge_transform_and_lower_to_qnn,
    )

    spec = generate_qnn_executorch_compiler_spec(
        soc_model=QcomChipset[SOC], backend_options=generate_htp_compiler_spec(use_fp16=True)
    )
    try:
        program = to_edge_transform_and_lower_to_qnn(model, inputs, spec)
    except RuntimeError as error:
        raise SdkError(f"ExecuTorch cannot compile with this QNN SDK: {_first_sentence(error)}") from error
    ops = [str(node.target) for node in program.exported_program().graph.nodes if node.op == "call_function"]
    if "executorch_call_delegate" not in ops or len(ops) != 2:  # the delegate and the getitem of its output
        raise SdkError(f"ops of a tiny model were not delegated to the HTP: {', '.join(ops)}")
    return program


def _run(program: EdgeProgramManager, inputs: tuple[Tensor, ...]) -> Tensor:
    from executorch.runtime import Runtime

    try:
        # The method reads memory of its program, which must not be collected before it.
        loaded = Runtime.get().load_program(program.to_executorch().buffer)
        (result,) = loaded.load_method("forward").execute(list(inputs))
    except RuntimeError as error:
        raise SdkError(f"ExecuTorch cannot run with this QNN SDK: {_first_sentence(error)}") from error
    return cast("Tensor", result)


def _first_sentence(error: RuntimeError) -> str:
    """Leave out ExecuTorch's advice: it is to set LD_LIBRARY_PATH, whatever the cause."""
    return str(error).partition(". ")[0]
