"""The ladder: the error of each output, rung by rung, from the eager model to the HTP."""

from __future__ import annotations

from qnndbg.analyze.metrics import measure
from qnndbg.analyze.normalize import numbers, same_rank
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import RANDOM, RUNGS, Run
from qnndbg.model.result import ErrorMetrics, Rung
from qnndbg.recording.store import Recording


def climb(recording: Recording) -> tuple[Rung, ...]:
    """One rung per runner that ran and output that it has, for every sample of each method.

    By method, sample and output, then in the order of the lowering. What a random draw goes into is another
    number in each run, and is not measured.
    """
    return tuple(
        rung for method, sample in recording.samples for rung in _of_sample(recording, method, sample)
    )


def _of_sample(recording: Recording, method: str, sample: int) -> list[Rung]:
    found = [recording.run(name, method, sample) for name in RUNGS]
    ran = [run for run in found if run is not None]
    count = max((len(run.results) for run in ran), default=0)
    # What no run has as a tensor, such as an output that is None, is no output to measure.
    outputs = [i for i in range(count) if any(run.results[i : i + 1] not in {(), (None,)} for run in ran)]
    return [rung for output in outputs for rung in _of_output(recording, ran, output)]


def _of_output(recording: Recording, ran: list[Run], output: int) -> list[Rung]:
    rungs: list[Rung] = []
    values = [(run.runner, run.results[output] if output < len(run.results) else None) for run in ran]
    eager = dict(values).get("eager")
    previous: TensorRef | None = None
    drawn = any(
        RANDOM in run.problems.values() and result is None
        for run, (_, result) in zip(ran, values, strict=True)
    )
    problems = {run.runner: next(iter(run.problems.values()), "") for run in ran}
    for name, value in values:
        rungs.append(
            Rung(
                name=name,
                method=ran[0].method,
                sample=ran[0].sample,
                output=output,
                against_eager=None if drawn else _error(recording, eager, value),
                against_previous=None if drawn or not rungs else _error(recording, previous, value),
                note="" if value is not None else problems[name] or "not available",
            )
        )
        previous = value or previous
    return rungs


def _error(recording: Recording, reference: TensorRef | None, value: TensorRef | None) -> ErrorMetrics | None:
    """None if either is missing or no number, or their shapes differ."""
    if reference is None or value is None:
        return None
    left = numbers(recording.tensor(reference), reference.dtype)
    right = numbers(recording.tensor(value), value.dtype)
    if left is None or right is None:
        return None
    right = same_rank(left, right)
    return measure(left, right) if left.shape == right.shape else None
