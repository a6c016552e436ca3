"""The outputs of two recordings: each side's against eager, and where the inputs are equal, one another."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from qnndbg.analyze.diff.layers import EQUAL_DB, within_rounding
from qnndbg.analyze.verdict import quality
from qnndbg.model.diff import OutputDiff, RungDiff
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import RUNGS, Run
from qnndbg.model.result import Comparison, ErrorMetrics, Rung
from qnndbg.recording.store import Recording

Key = tuple[str, int, str]
"""Method, output and runner."""
FLOATS = ("float32", "float64")
"""Dtypes whose last bits depend on the order of a sum; a half float's last bit is more than that."""
NOT_KEPT = "they differ; a recording without tensors does not say by how much"
ALIKE = "they differ, and by their errors against eager no more than float32 rounds"


def rung_diffs(a: Comparison | None, b: Comparison | None) -> tuple[RungDiff, ...]:
    """Every rung of each output of which one rung differs, by method and output, in the ladder's order."""
    left, right = _errors(a), _errors(b)
    differ = {
        key[:2]
        for key in {*left, *right}
        if left.get(key) != right.get(key) or (key in left) != (key in right)
    }
    return tuple(rung for rung in paired_rungs(a, b) if (rung.method, rung.output) in differ)


def paired_rungs(a: Comparison | None, b: Comparison | None) -> tuple[RungDiff, ...]:
    """Every rung of every output of either side, those that are equal too, in the order of a difference."""
    left, right = _errors(a), _errors(b)
    keys = sorted({*left, *right}, key=_order)
    return tuple(_rung(key, left.get(key), right.get(key)) for key in keys)


def _errors(side: Comparison | None) -> dict[Key, ErrorMetrics | None]:
    """Of each rung the error of the sample that is worst there; None where none has one."""
    found: dict[Key, ErrorMetrics | None] = {}
    for rung in side.ladder if side else ():
        known, error = found.get(_key(rung)), rung.against_eager
        worse = error is not None and (known is None or quality(error) < quality(known))
        found[_key(rung)] = error if worse else known
    return found


def _key(rung: Rung) -> Key:
    return rung.method, rung.output, rung.name


def _order(key: Key) -> tuple[str, int, int, str]:
    method, output, name = key
    known = [str(rung) for rung in RUNGS]
    return method, output, known.index(name) if name in known else len(known), name


def _rung(key: Key, a: ErrorMetrics | None, b: ErrorMetrics | None) -> RungDiff:
    method, output, name = key
    return RungDiff(name=name, method=method, output=output, a=a, b=b)


def other_inputs(a: Recording, b: Recording) -> list[tuple[str, int]]:
    """Method and number of the samples that both sides have, with other inputs."""
    return [sample for sample in _samples(a, b) if _digests(a, *sample) != _digests(b, *sample)]


def output_diffs(a: Recording, b: Recording) -> tuple[OutputDiff, ...]:
    """Where one runner gave, for equal inputs, other outputs."""
    skipped = set(other_inputs(a, b))
    found: list[OutputDiff] = []
    for method, sample in _samples(a, b):
        for runner in RUNGS if (method, sample) not in skipped else ():
            left, right = a.run(runner, method, sample), b.run(runner, method, sample)
            if left and right:
                found += _of_run(a, b, left, right)
    return tuple(found)


def _samples(a: Recording, b: Recording) -> list[tuple[str, int]]:
    return sorted(set(a.samples) & set(b.samples))


def _digests(recording: Recording, method: str, sample: int) -> list[TensorRef]:
    return [given.tensor for given in recording.inputs(method, sample)]


def _of_run(a: Recording, b: Recording, left: Run, right: Run) -> Iterator[OutputDiff]:
    for output in range(max(len(left.results), len(right.results))):
        x, y = (run.results[output] if output < len(run.results) else None for run in (left, right))
        if x != y:
            yield _measured(a, b, left, output, x, y)


def _measured(
    a: Recording, b: Recording, run: Run, output: int, x: TensorRef | None, y: TensorRef | None
) -> OutputDiff:
    nothing = OutputDiff(
        runner=run.runner,
        method=run.method,
        sample=run.sample,
        output=output,
        sqnr_db=None,
        max_abs=None,
        mismatched=None,
        elements=0,
    )
    if x is None or y is None:
        return replace(nothing, note="one side has none")
    alike = on_the_cpu(run.runner) and (x.dtype, x.shape) == (y.dtype, y.shape) and x.dtype in FLOATS
    if not (_stored(a, x) and _stored(b, y)):
        rounding = alike and _measured_alike(a, b, run.method, output)
        return replace(nothing, note=ALIKE if rounding else NOT_KEPT, rounding=rounding)
    from qnndbg.analyze.metrics import measure  # numpy takes long to load, and few differences need it
    from qnndbg.analyze.normalize import numbers, same_rank

    left, right = numbers(a.tensor(x), x.dtype), numbers(b.tensor(y), y.dtype)
    if left is None or right is None:
        return replace(nothing, note="they differ; there is no metric for their dtype")
    right = same_rank(left, right)
    if left.shape != right.shape:
        return replace(nothing, note="the shapes differ")
    forth, back = measure(left, right), measure(right, left)
    found = [error.sqnr_db for error in (forth, back) if error.sqnr_db is not None]
    return replace(
        nothing,
        sqnr_db=max(found, default=None),
        max_abs=forth.max_abs,
        mismatched=forth.mismatched,
        elements=forth.elements,
        rounding=alike and not forth.nonfinite and max(found, default=0.0) >= EQUAL_DB,
    )


def on_the_cpu(runner: str) -> bool:
    """Whether a runner is one of kernels that sum in another order from one process to the next."""
    return not runner.startswith("htp")


def _measured_alike(a: Recording, b: Recording, method: str, output: int) -> bool:
    """Of an output that was not kept: its errors against eager, which are, are those of one value."""
    left, right = _errors(a.comparison()), _errors(b.comparison())
    keys = [key for key in {*left, *right} if key[:2] == (method, output) and key[2] != "eager"]
    return any(left.get(key) for key in keys) and all(
        within_rounding(left.get(key), right.get(key)) for key in keys
    )


def _stored(recording: Recording, ref: TensorRef) -> bool:
    return (recording.folder / "tensors" / f"{ref.digest}.npy").exists()
