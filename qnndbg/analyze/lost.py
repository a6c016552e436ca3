"""Parts of an output that are lost though the whole is right: small channels beside large ones.

One SQNR over an output is that of its largest numbers. Scores between 0 and 1 that share an 8-bit scale with
boxes of some hundred pixels may all be zero, and the output still has 50 dB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qnndbg.analyze.normalize import Array, numbers
from qnndbg.model.graph import TensorRef
from qnndbg.recording.store import Recording

LOST_DB = 3.0
"""A part is lost if more than half as much error as signal is in it."""
FEWEST = 8
"""Elements that a part has at least: of fewer, one rounding may be all."""
MOST_PARTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LostParts:
    """An output of which some slices along an axis are lost."""

    method: str
    sample: int
    output: int
    axis: int
    lost: int
    parts: int

    @property
    def what(self) -> str:
        """How many of how many, such as ``6 of 10 slices along axis 1``."""
        return f"{self.lost} of {self.parts} slices along axis {self.axis}"


def lost_parts(recording: Recording) -> tuple[LostParts, ...]:
    """What is lost of the outputs of the HTP against those of eager, along the second or the last axis."""
    return tuple(found for method, sample in recording.samples for found in _of(recording, method, sample))


def _of(recording: Recording, method: str, sample: int) -> Iterator[LostParts]:
    runs = [recording.run(name, method, sample) for name in ("eager", "htp")]
    columns = [run.results for run in runs if run is not None]
    if len(columns) != len(runs):
        return
    for output, pair in enumerate(zip(*columns, strict=False)):
        eager, htp = (_floats(recording, ref) for ref in pair)
        if eager is None or htp is None or eager.shape != htp.shape:
            continue
        for axis in sorted({1, eager.ndim - 1}):
            lost, parts = _along(eager, htp, axis)
            if lost:
                yield LostParts(
                    method=method, sample=sample, output=output, axis=axis, lost=lost, parts=parts
                )
                break


def _floats(recording: Recording, ref: TensorRef | None) -> Array | None:
    values = numbers(recording.tensor(ref), ref.dtype) if ref is not None else None
    return values if values is not None and values.dtype.kind == "f" and values.ndim > 1 else None


def _along(eager: Array, htp: Array, axis: int) -> tuple[int, int]:
    """How many slices are lost, and of how many."""
    parts = eager.shape[axis]
    if not 1 < parts <= MOST_PARTS or eager.size < FEWEST * parts:
        return 0, parts
    one, other = (np.moveaxis(side, axis, 0).reshape(parts, -1).astype(np.float64) for side in (eager, htp))
    signal, error = np.square(one).sum(1), np.square(other - one).sum(1)
    lost = (signal > 0) & (error > signal * 10 ** (-LOST_DB / 10))
    return int(np.count_nonzero(lost)), parts
