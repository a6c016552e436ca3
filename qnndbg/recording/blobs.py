"""Tensors by content: ``tensors/<digest>.npy``, written once, read memory-mapped."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qnndbg.errors import RecordingError
from qnndbg.model.graph import TensorRef
from qnndbg.recording.schema import DIGEST, check_regular, digest

STORED_AS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Dtypes that numpy lacks, and the one that holds their bits."""


class Blobs:
    """The tensors of one recording.

    Args:
        folder: the ``tensors`` folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, array: NDArray[np.generic], dtype: str | None = None) -> TensorRef:
        """Store an array unless its bytes are there already.

        Args:
            array: any shape; copied only if it is not contiguous.
            dtype: its torch dtype, where numpy lacks that and the array holds the bits.
        """
        # ascontiguousarray makes a 0-d array 1-d.
        data = np.ascontiguousarray(array).reshape(array.shape)
        name = dtype or str(data.dtype)
        key = digest(f"{name}{data.shape}".encode(), data.reshape(-1).view(np.uint8).data)
        path = self.folder / f"{key}.npy"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            with partial.open("wb") as file:
                np.save(file, data, allow_pickle=False)
            partial.replace(path)
        return TensorRef(key, name, data.shape)

    def get(self, ref: TensorRef) -> NDArray[np.generic]:
        """Map a tensor into memory, read-only.

        Raises:
            RecordingError: it is missing, damaged, or not what the reference says.
        """
        if not DIGEST.fullmatch(ref.digest):
            raise RecordingError(
                f"{ref.digest!r} is no tensor digest", "the recording is damaged; record again"
            )
        path = self.folder / f"{ref.digest}.npy"
        check_regular(path)
        try:
            array = _mapped(path)
        except Exception as error:
            raise RecordingError(
                f"tensor {ref.digest} cannot be read: {error}",
                "the recording is incomplete or damaged; record again",
            ) from error
        if array.shape != ref.shape or str(array.dtype) != STORED_AS.get(ref.dtype, ref.dtype):
            raise RecordingError(
                f"tensor {ref.digest} is {array.dtype}{array.shape}, not {ref.dtype}{ref.shape}",
                "the recording is damaged; record again",
            )
        return array

    def is_whole(self, ref: TensorRef) -> bool:
        """Whether the file of a tensor is there and long enough."""
        try:
            size = (self.folder / f"{ref.digest}.npy").stat().st_size
        except (OSError, ValueError):  # a digest may be no file name
            return False
        return size >= math.prod(ref.shape) * np.dtype(STORED_AS.get(ref.dtype, ref.dtype)).itemsize


def _mapped(path: Path) -> NDArray[np.generic]:
    """The array of one ``.npy`` file, and of no other kind of file that ``np.load`` would open."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
    if 0 in shape:  # an empty section of a file cannot be mapped
        return np.empty(shape, dtype)
    return np.lib.format.open_memmap(path, mode="r")
