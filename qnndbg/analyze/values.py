"""The values behind a layer's errors: what the CPU and the HTP have of one QNN tensor, as real numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qnndbg.analyze.normalize import Array, dequantise, numbers, same_rank, saturate, saturate_infinite
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import RunnerName, is_half
from qnndbg.model.result import LayerResult
from qnndbg.recording.store import Recording


@dataclass(frozen=True, slots=True)
class Values:
    """One QNN tensor, flat, in one order on all sides; None for a side that there is not."""

    target: Array
    """The HTP's."""
    reference: Array | None
    """The CPU's, on its own inputs."""
    local: Array | None
    """The CPU's, on the HTP's inputs."""


def values_of(recording: Recording, layer: LayerResult) -> Values | None:
    """Read the values of a layer; None where the HTP's were not dumped.

    Args:
        recording: the one that the layer is of.
        layer: of the example inputs.

    Raises:
        RecordingError: a tensor is missing or damaged.
    """
    refs = {side: _find(recording, side, layer) for side in ("reference", "local", "htp-tapped")}
    dumped = refs["htp-tapped"]
    if dumped is None:
        return None
    raw = recording.tensor(dumped)
    if raw.dtype.kind == "f":
        target = saturate(raw) if is_half(recording.manifest.precision) else raw
    else:
        target = raw if layer.encoding is None else dequantise(raw, layer.encoding)
    sides = [_side(recording, refs[side], target) for side in ("reference", "local")]
    return Values(target.reshape(-1), *sides)


def _find(recording: Recording, runner: str, layer: LayerResult) -> TensorRef | None:
    names: dict[str, RunnerName] = {"reference": "reference", "local": "local", "htp-tapped": "htp-tapped"}
    run = recording.run(names[runner], layer.method)
    found = (
        value.tensor
        for value in (run.values if run else ())
        if (value.name, value.partition) == (layer.tensor, layer.partition)
    )
    return next(found, None)


def _side(recording: Recording, ref: TensorRef | None, target: Array) -> Array | None:
    reference = None if ref is None else numbers(recording.tensor(ref), ref.dtype)
    if reference is None or same_rank(reference, target).shape != reference.shape:
        return None
    if is_half(recording.manifest.precision):
        reference = saturate_infinite(reference)
    return np.ascontiguousarray(reference).reshape(-1)
