"""What the reports of a difference are made of: the difference, and the answers of both sides.

A difference leaves out what is equal. A report that lists every output and module, failed or not, has those
from the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qnndbg.analyze.diff.layers import trend
from qnndbg.analyze.diff.outputs import paired_rungs
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.model.diff import Diff, LayerDiff, LayerSide, RungDiff, Trend
from qnndbg.model.result import Comparison
from qnndbg.recording.store import Recording


@dataclass(frozen=True, slots=True)
class Pair:
    """Two recordings that were compared."""

    diff: Diff
    a: Comparison | None
    """None if the recording did not get that far."""
    b: Comparison | None
    version: str
    """Of the qnndbg that made B."""


@dataclass(frozen=True, slots=True)
class OutputPair:
    """One output on both sides."""

    method: str
    output: int
    rungs: tuple[RungDiff, ...]

    @property
    def last(self) -> RungDiff:
        """The rung that counts."""
        return self.rungs[-1]

    @property
    def trend(self) -> Trend:
        """Of its error against eager at the last rung; ``unknown`` where one side has none."""
        return trend(self.last.a, self.last.b, steps=False)

    @property
    def missing(self) -> bool:
        """A has a number for it, and B has none."""
        return self.last.a is not None and self.last.b is None


def pair_from_recordings(a: Recording, b: Recording) -> Pair:
    """Compare two recordings, complete or not."""
    return Pair(diff_recordings(a, b), a.comparison(), b.comparison(), b.manifest.environment.qnndbg)


def output_pairs(pair: Pair) -> tuple[OutputPair, ...]:
    """Every output of either side, by method and number."""
    found: dict[tuple[str, int], list[RungDiff]] = {}
    for rung in paired_rungs(pair.a, pair.b):
        found.setdefault((rung.method, rung.output), []).append(rung)
    return tuple(OutputPair(*key, tuple(rungs)) for key, rungs in found.items())


def module_pairs(pair: Pair) -> Iterator[tuple[tuple[str, str], int, list[LayerDiff]]]:
    """Method and module of either side by name, its number of compared layers, and those that differ."""
    changed: dict[tuple[str, str], list[LayerDiff]] = {}
    for layer in pair.diff.layers:
        side = side_of(layer)
        changed.setdefault((side.method, side.module), []).append(layer)
    counts: dict[tuple[str, str], int] = {}
    for layer_result in pair.b.layers if pair.b else ():
        key = layer_result.method, layer_result.module
        compared = layer_result.accumulated is not None or layer_result.local is not None
        counts[key] = counts.get(key, 0) + compared
    for key in sorted({*changed, *counts}):
        yield key, counts.get(key, 0), changed.get(key, [])


def side_of(layer: LayerDiff) -> LayerSide:
    """The layer as B has it, else as A has it."""
    side = layer.b or layer.a
    assert side is not None, "a layer is of one side at least"
    return side
