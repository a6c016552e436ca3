"""Executes a lowered program on the HTP emulator, through ExecuTorch's runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from executorch.runtime import Runtime

from qnndbg.errors import LoweringError
from qnndbg.execute.etdump import NotDumpedError, Tap, read_taps

ALIGNMENT = 64
"""Each dumped tensor may be padded by this many bytes."""
OPERATOR_MISSING = "error: 0x:14"
"""How the runtime reports its Error::OperatorMissing."""
SLACK = 1 << 20
"""Added to the debug buffer, since one that is too small aborts the process."""


def execute(program: Path, samples: Iterable[Sequence[Any]], method: str = "forward") -> list[list[Any]]:
    """Execute a program for each sample.

    Args:
        program: a ``.pte`` file.
        samples: flattened, contiguous inputs.
        method: the method to run.

    Returns:
        The outputs of each sample, copied out of the runtime's own memory.
    """
    with _explained():
        # The method reads memory of its program, which must not be collected before it.
        loaded = Runtime.get().load_program(program.read_bytes())
        runner = loaded.load_method(method)
        return [[_copied(output) for output in runner.execute(list(sample))] for sample in samples]


def execute_tapped(
    program: Path, sample: Sequence[Any], dumped_bytes: int, tensors: int, method: str = "forward"
) -> tuple[list[Any], list[Tap]]:
    """Execute a program that dumps its intermediates, once.

    A second execution of the same loaded program is not separated in the dump, hence one sample.

    Args:
        program: a ``.pte`` file whose delegates dump.
        sample: flattened, contiguous inputs.
        dumped_bytes: upper bound of the native sizes of all tensors that will be logged.
        tensors: how many tensors that may be.
        method: the method to run.

    Raises:
        NotDumpedError: the runtime has no event tracer, as that of the 1.4.1 wheel.
    """
    size = dumped_bytes + tensors * ALIGNMENT + SLACK
    with _explained():
        loaded = Runtime.get().load_program(program.read_bytes(), enable_etdump=True, debug_buffer_size=size)
        runner = loaded.load_method(method)
        outputs = [_copied(output) for output in runner.execute(list(sample))]
    with tempfile.TemporaryDirectory() as name:
        etdump, debug = Path(name, "etdump"), Path(name, "debug")
        loaded.write_etdump_result_to_file(str(etdump), str(debug))
        if not etdump.exists():
            raise NotDumpedError(
                "this ExecuTorch's runtime was built without its event tracer, so nothing is dumped",
                "for a comparison of layers: pip install executorch==1.5.1",
            )
        return outputs, read_taps(etdump.read_bytes(), debug.read_bytes())


@contextmanager
def _explained() -> Iterator[None]:
    """What ExecuTorch's runtime raises becomes an error with a hint."""
    try:
        yield
    except RuntimeError as error:
        hint = "the log has what the runtime said"
        if OPERATOR_MISSING in str(error):
            hint = "an op that stayed on the CPU has no kernel in this ExecuTorch; write it with other ops"
        raise LoweringError(f"the program cannot be executed: {error}", hint) from error


def _copied(output: Any) -> Any:
    return output.clone() if isinstance(output, torch.Tensor) else output
