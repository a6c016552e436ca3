"""Whether the parts of a recording fit one another: what a comparison refuses, and a report does without.

Files that cannot be read are found by :class:`Recording`; here are numbers and names that cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator

from qnndbg.errors import RecordingError
from qnndbg.model.attribution import Attribution, Effect
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import Run
from qnndbg.recording.store import Recording

SIZES = ("error", "accumulated", "floor", "peak_error", "peak_floor", "signal", "peak")
"""Of an effect: what no error, magnitude or floor can be is less than nothing."""


def check_parts(recording: Recording) -> None:
    """Refuse runs, attributions and pass changes that speak of what is not in the recording.

    Raises:
        RecordingError: one does, or has a number that cannot be.
    """
    for problem in _nonsense(recording):
        raise RecordingError(problem, "the recording is damaged; record again")


def lost_parts(recording: Recording) -> tuple[str, ...]:
    """What of a recording is missing or damaged that its report was made from; a sentence on each."""
    found = []
    for load in (
        lambda: recording.runs,
        lambda: recording.attributions,
        lambda: recording.pass_changes,
        lambda: recording.layer_ladders,
    ):
        try:
            load()
        except RecordingError as error:
            found.append(error.fact)
    if found:
        return tuple(found)
    return (*(_lost_graphs(recording) or _nonsense(recording)), *_missing(recording))


def _lost_graphs(recording: Recording) -> tuple[str, ...]:
    """The partitions that runs have values of and whose QNN graphs are gone, in one sentence."""
    runs = recording.runs.values()
    wanted = {(run.method, v.partition) for run in runs for v in run.values if v.partition is not None}
    lost = wanted - {(graph.method, graph.partition) for graph in recording.qnn}
    return (f"{len(lost)} of {len(wanted)} QNN graphs are missing in qnn/",) if lost else ()


def _missing(recording: Recording) -> Iterator[str]:
    answer = recording.comparison()
    if answer is not None:
        runs = {Run(runner=r.name, method=r.method, sample=r.sample).id for r in answer.ladder}  # type: ignore[arg-type]
        if lost := sorted(runs - set(recording.runs)):
            yield f"{len(lost)} of {len(runs)} runs are missing in runs/: {', '.join(lost)}"
        wanted = {f"{s.step}.{s.method}.{s.sample}.{s.output}" for s in answer.sources}
        if lost := sorted(wanted - {a.id for a in recording.attributions}):
            yield f"{len(lost)} of {len(wanted)} attributions are missing in attributions/"
        told = answer.verdict.kind in {"pass", "dtype"} and answer.verdict.share is not None
        if told and answer.verdict.culprit not in {change.name for change in recording.pass_changes}:
            yield f"what the pass {answer.verdict.culprit} changed is missing in pass-changes/"
        climbed = {(r.method, r.sample) for r in answer.ladder if r.name == "reference"}
        unclimbed = climbed - {(ladder.method, ladder.sample) for ladder in recording.layer_ladders}
        if recording.manifest.complete and unclimbed:
            yield f"{len(unclimbed)} of {len(climbed)} ladders of layers are missing in layer-ladders/"
    refs = set(_refs(recording))
    if count := recording.lost_tensors(refs):
        yield f"{count} of {len(refs)} tensors are missing or cut short in tensors/"


def _refs(recording: Recording) -> Iterator[TensorRef]:
    yield from (given.tensor for given in recording.manifest.inputs)
    for run in recording.runs.values():
        yield from (ref for ref in run.results if ref is not None)
        yield from (value.tensor for value in run.values)


def _nonsense(recording: Recording) -> Iterator[str]:
    partitions = {(graph.method, graph.partition) for graph in recording.qnn}
    for run in recording.runs.values():
        for value in run.values:
            what = f"{value.name!r} of the run {run.id}"
            if value.partition is not None and (run.method, value.partition) not in partitions:
                yield f"{what} is in partition {value.partition}, which there is not"
            for name in ("floor", "peak_floor"):
                if (getattr(value, name) or 0.0) < 0:
                    yield f"{what} has a {name} of {getattr(value, name)}"
    for attribution in recording.attributions:
        yield from _of_attribution(recording, attribution, partitions)
    events = {event.index for event in recording.passes}
    for change in recording.pass_changes:
        if change.event not in events:
            yield f"the change by {change.name} is of pass event {change.event}, which there is not"


def _of_attribution(
    recording: Recording, attribution: Attribution, partitions: set[tuple[str, int]]
) -> Iterator[str]:
    what = f"the attribution {attribution.id}"
    runs = [
        r for r in recording.runs.values() if (r.method, r.sample) == (attribution.method, attribution.sample)
    ]
    outputs = max((len(run.results) for run in runs), default=0)
    if attribution.output < 0 or (outputs and attribution.output >= outputs):
        yield f"{what} is of output {attribution.output}, which no run has"
    if attribution.error < 0 or attribution.signal < 0:
        yield f"{what} has an error or a signal below zero"
    for effect in attribution.effects:
        if effect.partition is not None and (attribution.method, effect.partition) not in partitions:
            yield f"{what} speaks of partition {effect.partition}, which there is not"
        yield from (f"{what} has a {name} of {size} at {effect.name!r}" for name, size in _below_zero(effect))


def _below_zero(effect: Effect) -> Iterator[tuple[str, float]]:
    sizes = ((name, getattr(effect, name)) for name in SIZES)
    return ((name, size) for name, size in sizes if size is not None and size < 0)
