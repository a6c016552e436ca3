"""How well the noise floor tells faults from rounding, against the fixed thresholds of ExecuTorch's debugger.

It reads recordings that were kept, such as those of ``make sweep SWEEP="--keep DIR"``, and lowers nothing::

    python -m benchmarks.noise_floor DIR [DIR ...]

On each compared layer it asks which criterion flags the local error as it was measured, and which does so
once an error of two steps of the encoding (of fp16: of two units in the last place) is in every element.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from qnndbg.analyze.causes import FLOOR_LIMIT
from qnndbg.analyze.metrics import measure
from qnndbg.analyze.normalize import Array, dequantise, numbers, same_rank, step_of
from qnndbg.errors import RecordingError
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import is_half
from qnndbg.model.result import ErrorMetrics, LayerResult
from qnndbg.recording.store import Recording, open_recording

MSE, COSINE, SQNR_DB = 1e-3, 0.95, 10.0
"""Defaults of the three sample comparators of ExecuTorch 1.5.1's QNNIntermediateDebugger."""
STEPS = 2.0
"""Size of the added error in steps."""
CRITERIA = ("noise floor", "mse", "cosine", "sqnr")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, count, and print one table for each precision."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, help="folders with recordings, at any depth")
    parser.add_argument("--list", action="store_true", help="name the layers that the noise floor flags")
    given = parser.parse_args(arguments)
    asked: Counter[str] = Counter()
    flagged: dict[tuple[str, str, str], int] = Counter()
    models: dict[str, set[str]] = {}
    for recording, layer, seeded in _layers(given.folders):
        precision = recording.manifest.precision
        asked[precision] += 1
        models.setdefault(precision, set()).add(str(recording.folder))
        for criterion in CRITERIA:
            flagged[precision, criterion, "clean"] += _flags(criterion, layer)
            flagged[precision, criterion, "seeded"] += _flags(criterion, seeded)
        if given.list and _flags("noise floor", layer):
            _say(f"{recording.folder.name}  {layer.tensor}  {layer.op}  x{layer.excess:.1f}")
    _print(asked, flagged, models)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _layers(folders: Sequence[Path]) -> Iterator[tuple[Recording, LayerResult, LayerResult]]:
    for folder in folders:
        for manifest in sorted(folder.rglob("manifest.json")):
            try:
                recording = open_recording(manifest.parent)
                comparison = recording.comparison()
            except RecordingError as error:
                _say(f"{manifest.parent}: {error.fact}")
                continue
            for layer in comparison.layers if comparison else ():
                seeded = _seeded(recording, layer)
                if seeded is not None:
                    yield recording, layer, seeded


def _seeded(recording: Recording, layer: LayerResult) -> LayerResult | None:
    """The layer with an error of some steps more in each element; None for integers and what has no floor."""
    sides = [recording.run(name, layer.method) for name in ("local", "htp-tapped")]
    refs = [_value(layer, run.values) if run else None for run in sides]
    if layer.floor is None or layer.local is None or refs[0] is None or refs[1] is None:
        return None
    reference = numbers(recording.tensor(refs[0]), refs[0].dtype)
    if reference is None or reference.dtype.kind != "f":
        return None
    raw = recording.tensor(refs[1])
    target = raw if layer.encoding is None or raw.dtype.kind == "f" else dequantise(raw, layer.encoding)
    target = same_rank(reference, target)
    step = _step(layer, reference, half=is_half(recording.manifest.precision))
    if target.shape != reference.shape or step is None:
        return None
    return replace(layer, local=measure(reference, target + STEPS * step))


def _value(layer: LayerResult, values: Sequence[object]) -> TensorRef | None:
    found = (v for v in values if (v.name, v.partition) == (layer.tensor, layer.partition))  # type: ignore[attr-defined]
    return next((value.tensor for value in found), None)  # type: ignore[attr-defined]


def _step(layer: LayerResult, reference: Array, *, half: bool) -> Array | None:
    if layer.encoding is not None:
        return step_of(layer.encoding, reference.ndim).astype(np.float64)
    if not half:
        return None
    spacing: Array = np.spacing(np.abs(reference).clip(max=65504).astype(np.float16)).astype(np.float64)
    return spacing


def _flags(criterion: str, layer: LayerResult) -> bool:
    error: ErrorMetrics | None = layer.local
    if error is None or not error.mismatched:
        return False
    if criterion == "noise floor":
        return (layer.excess or 0.0) > FLOOR_LIMIT
    if criterion == "mse":
        return (error.rms_abs or 0.0) ** 2 > MSE
    if criterion == "cosine":
        return error.cosine is not None and error.cosine < COSINE
    return error.sqnr_db is not None and error.sqnr_db < SQNR_DB


def _print(
    asked: Counter[str], flagged: dict[tuple[str, str, str], int], models: dict[str, set[str]]
) -> None:
    for precision, count in sorted(asked.items()):
        _say(f"\n{precision}: {count} layers of {len(models[precision])} recordings")
        _say(f"  {'flagged by':14}{'as measured':>14}{f'with {STEPS:.0f} steps':>14}")
        for criterion in CRITERIA:
            shares = [flagged[precision, criterion, kind] / count for kind in ("clean", "seeded")]
            _say(f"  {criterion:14}{shares[0]:>14.1%}{shares[1]:>14.1%}")


if __name__ == "__main__":
    main()
