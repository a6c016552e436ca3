"""Reads the intermediate outputs out of an ETDump.

ExecuTorch's own Inspector groups them by debug handle and fails on half tensors; here every event of
a delegate is kept under its QNN tensor name, in its native dtype.
"""

from __future__ import annotations

import importlib.resources
import math
import subprocess
import tempfile
from pathlib import Path

import msgspec
import numpy as np
from executorch.exir._serialize._flatbuffer import _flatc_decompile
from numpy.typing import NDArray

from qnndbg.errors import LoweringError

DTYPES = {
    "BYTE": "uint8",
    "CHAR": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool",
    "BITS16": "uint16",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
}


class NotDumpedError(LoweringError):
    """The runtime cannot dump intermediates; everything else still works."""


class _Tensor(msgspec.Struct):
    scalar_type: str
    sizes: list[int] = []
    offset: int | None = None


class _Entry(msgspec.Struct):
    tensor: _Tensor | None = None


class _DebugEvent(msgspec.Struct):
    instruction_id: int = -1
    delegate_debug_id_str: str | None = None
    debug_entry: _Entry | None = None


class _Event(msgspec.Struct):
    debug_event: _DebugEvent | None = None


class _RunData(msgspec.Struct):
    events: list[_Event] = []


class _Dump(msgspec.Struct):
    run_data: list[_RunData] = []


Tap = tuple[int, str, NDArray[np.generic]]
"""Number of the delegate call, QNN tensor name, value."""


def read_taps(etdump: bytes, debug: bytes) -> list[Tap]:
    """All values that delegates dumped in one execution, in the order of their events.

    Args:
        etdump: the ETDump flatbuffer.
        debug: the debug buffer that its tensors point into.

    Raises:
        LoweringError: the two do not fit each other.
        NotDumpedError: the dump holds what its format has no place for.
    """
    taps: list[Tap] = []
    calls: dict[int, int] = {}
    for run in _decode(etdump).run_data:
        for event in run.events:
            found = event.debug_event
            if found is None or not found.delegate_debug_id_str or found.debug_entry is None:
                continue
            if found.debug_entry.tensor is not None:
                call = calls.setdefault(found.instruction_id, len(calls))
                name = found.delegate_debug_id_str
                taps.append((call, name, _array(found.debug_entry.tensor, debug, name)))
    return taps


def _decode(etdump: bytes) -> _Dump:
    schemas = importlib.resources.files("executorch.devtools.etdump")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for schema in ("etdump_schema_flatcc.fbs", "scalar_type.fbs"):
            (folder / schema).write_bytes((schemas / schema).read_bytes())
        binary = folder / "dump.etdp"
        binary.write_bytes(etdump)
        try:
            # flatc turns the flatbuffer into JSON; raw tensor bytes are not in it.
            _flatc_decompile(
                str(folder),
                str(folder / "etdump_schema_flatcc.fbs"),
                str(binary),
                ["--raw-binary", "--size-prefixed"],
            )
        except subprocess.CalledProcessError as error:
            raise NotDumpedError(
                "the dump cannot be read, as is the case where a program takes or returns half floats",
                "for a comparison of layers: give the model float32 inputs and outputs",
            ) from error
        return msgspec.json.decode((folder / "dump.json").read_bytes(), type=_Dump)


def _array(tensor: _Tensor, debug: bytes, name: str) -> NDArray[np.generic]:
    dtype = DTYPES.get(tensor.scalar_type)
    if dtype is None:
        raise LoweringError(f"the dump of {name} has the unknown dtype {tensor.scalar_type}")
    count = math.prod(tensor.sizes)
    if count == 0:
        return np.zeros(tensor.sizes, dtype)
    offset = tensor.offset or 0
    if offset + count * np.dtype(dtype).itemsize > len(debug):
        raise LoweringError(
            f"the dump of {name} lies outside of the debug buffer", "the debug buffer is too small"
        )
    return np.frombuffer(debug, dtype, count, offset).reshape(tensor.sizes).copy()
