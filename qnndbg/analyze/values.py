"""The values behind a layer's errors: what the CPU and the HTP have of one QNN tensor, as real numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qnndbg.analyze.normalize import Array, half_of, same_rank, value_on_cpu, value_on_htp
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import RunnerName, is_half
from qnndbg.model.result import LayerResult
from qnndbg.recording.store import Recording

CPU: tuple[RunnerName, RunnerName] = ("reference", "local")


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
    """Read the values of a layer; None where there are none of the HTP's, see :func:`absence`.

    Args:
        recording: the one that the layer is of.
        layer: of the example inputs.

    Raises:
        RecordingError: a tensor is missing or damaged.
    """
    dumped = _find(recording, "held" if layer.given else "htp-tapped", layer)
    half = is_half(recording.manifest.precision)
    if dumped is None:
        return _rounded(recording, layer) if layer.given and half else None
    target = value_on_htp(recording.tensor(dumped), layer.encoding, half=half)
    reference, local = (_find(recording, side, layer) for side in CPU)
    return Values(target.reshape(-1), _side(recording, reference, target), _side(recording, local, target))


def absence(layer: LayerResult) -> str:
    """Why there are no values of a layer."""
    kept = "the HTP holds it as the graph has it" if layer.given else "the recording has none of the HTP's"
    return layer.reason or kept


def _rounded(recording: Recording, layer: LayerResult) -> Values | None:
    """An input or constant that half floats only round, which is stored as the graph has it."""
    ref = _find(recording, "local", layer)
    own = None if ref is None else value_on_cpu(recording.tensor(ref), ref.dtype, half=True)
    return (
        None if own is None else Values(half_of(own).reshape(-1), None, np.ascontiguousarray(own).reshape(-1))
    )


def _find(recording: Recording, runner: RunnerName, layer: LayerResult) -> TensorRef | None:
    run = recording.run(runner, layer.method)
    found = (
        value.tensor
        for value in (run.values if run else ())
        if (value.name, value.partition) == (layer.tensor, layer.partition)
    )
    return next(found, None)


def _side(recording: Recording, ref: TensorRef | None, target: Array) -> Array | None:
    if ref is None:
        return None
    half = is_half(recording.manifest.precision)
    reference = value_on_cpu(recording.tensor(ref), ref.dtype, half=half)
    if reference is None or same_rank(reference, target).shape != reference.shape:
        return None
    return np.ascontiguousarray(reference).reshape(-1)
