"""The parts of a recording that a comparison was made from or with, and that a text report does not read."""

from __future__ import annotations

from typing import get_args

import numpy as np

from qnndbg.model.attribution import Attribution
from qnndbg.model.layer_ladder import LayerLadder
from qnndbg.model.recording import Manifest, Run, RunnerName
from qnndbg.model.result import Comparison
from qnndbg.recording.writer import Writer


def fill(writer: Writer, manifest: Manifest, comparison: Comparison) -> None:
    """Write a run for each rung, an attribution for each split output, ladders of layers, and the inputs."""
    for runner in get_args(RunnerName):
        for method, sample in {(r.method, r.sample) for r in comparison.ladder if r.name == runner}:
            writer.run(Run(runner=runner, method=method, sample=sample))
    for step, method, sample, output in {(s.step, s.method, s.sample, s.output) for s in comparison.sources}:
        made = Attribution(step=step, method=method, sample=sample, output=output, error=0.1, signal=1.0)
        writer.attribution(made)
    for method, sample in {(r.method, r.sample) for r in comparison.ladder}:
        writer.layer_ladder(LayerLadder(method=method, sample=sample, rungs=(), layers=()))
    for given in manifest.inputs:
        path = writer.folder / "tensors" / f"{given.tensor.digest}.npy"
        path.parent.mkdir(exist_ok=True)
        np.save(path, np.zeros(given.tensor.shape, given.tensor.dtype))
