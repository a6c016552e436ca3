"""Writes what is known of a lowering as soon as it is known, so that one which fails can be evaluated too."""

from __future__ import annotations

import torch

from qnndbg.capture.lowering import Lowering
from qnndbg.capture.precision import soc_of
from qnndbg.capture.tensors import array_from_tensor
from qnndbg.model.recording import Input
from qnndbg.pipeline.calls import contiguous, flatten
from qnndbg.recording.writer import Writer

Inputs = tuple[object, ...]


def note_known(lowering: Lowering) -> None:
    """Write inputs, precision and SoC of a lowering that has just begun; what is there stays."""
    writer = lowering.recorder.writer
    manifest = writer.read_manifest()
    there = {given.method for given in manifest.inputs}
    fresh = [
        given
        for method, values in lowering.inputs.items()
        if method not in there
        for given in stored_inputs(writer, values, method)
    ]
    writer.update_manifest(
        inputs=(*manifest.inputs, *fresh),
        precision=manifest.precision or lowering.precision,
        soc=manifest.soc or soc_of(lowering),
    )


def stored_inputs(writer: Writer, values: Inputs, method: str = "forward", sample: int = 0) -> list[Input]:
    """Store one sample, made contiguous, with a note of what was done to it."""
    clean, fixed = contiguous(values)
    given = flatten(values)
    return [
        Input(
            name=f"input {i}",
            tensor=writer.tensor(*array_from_tensor(value)),
            note=fixed.get(i, ""),
            strides=tuple(given[i].stride()) if i in fixed else (),
            method=method,
            sample=sample,
        )
        for i, value in enumerate(flatten(clean))
        if isinstance(value, torch.Tensor)
    ]
