"""A recording as pandas tables, for notebooks and for questions that no report asks.

>>> answer = qnndbg.open("digits.qnndbg")
>>> answer.layers().nlargest(5, "effect")[["op", "module", "local_sqnr_db", "effect"]]
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

import msgspec

from qnndbg.analyze.values import absence, values_of
from qnndbg.analyze.verdict import empty_comparison
from qnndbg.errors import UsageError
from qnndbg.model.recording import Fallback, PassEvent
from qnndbg.model.result import ErrorMetrics, Finding, LayerResult, Rung, Source, Verdict
from qnndbg.recording.store import Recording, open_recording
from qnndbg.report.as_csv import METRICS, header, layer_rows

if TYPE_CHECKING:
    import pandas as pd


def open(path: str | Path) -> Tables:
    """Open a recording, complete or not, or a baseline, as tables.

    Raises:
        RecordingError: there is none, or it is damaged.
        SchemaError: a newer qnndbg wrote it.
    """
    return Tables(open_recording(path))


class Tables:
    """What a recording says, as one pandas table each; empty where the recording did not get that far.

    Args:
        recording: as :func:`qnndbg.open_recording` gives it.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._answer = recording.comparison() or empty_comparison()

    def __repr__(self) -> str:
        return f"<{self.recording.folder.name}: {self.verdict.text}>"

    @property
    def verdict(self) -> Verdict:
        """The one line that counts, and what it rests on."""
        return self._answer.verdict

    def layers(self) -> pd.DataFrame:
        """A row for each QNN tensor in execution order; columns as in the CSV report."""
        return _frame(layer_rows(self._answer.layers), header()).set_index("position")

    def ladder(self) -> pd.DataFrame:
        """A row for each rung of each output and sample; errors against eager and against the rung before."""
        return _structs(self._answer.ladder, Rung)

    def layer_ladders(self) -> pd.DataFrame:
        """A row for each rung of each layer and sample; SQNR in dB against eager and the rung before."""
        rows = [
            (ladder.method, ladder.sample, layer.partition, layer.tensor, rung, eager, previous)
            for ladder in self.recording.layer_ladders
            for layer in ladder.layers
            for rung, eager, previous in zip(
                ladder.rungs, layer.against_eager, layer.against_previous, strict=True
            )
        ]
        columns = ("method", "sample", "partition", "tensor", "rung", "against_eager", "against_previous")
        return _frame(rows, columns)

    def sources(self) -> pd.DataFrame:
        """A row for each place that makes a part of an output's error, by falling share."""
        return _structs(self._answer.sources, Source)

    def findings(self) -> pd.DataFrame:
        """A row for each rule that holds, by severity."""
        return _structs(self._answer.findings, Finding)

    def passes(self) -> pd.DataFrame:
        """A row for each pass that ran, in order."""
        return _structs((event for event in self.recording.passes if event.name), PassEvent)

    def fallbacks(self) -> pd.DataFrame:
        """A row for each op that stays on the CPU, with the reason."""
        methods = self.recording.manifest.methods
        return _structs((fallback for method in methods for fallback in method.fallbacks), Fallback)

    def values(self, tensor: str, method: str = "forward", partition: int | None = None) -> pd.DataFrame:
        """The elements of one QNN tensor as real numbers, in the HTP's layout, a row each.

        Columns ``reference`` (the CPU on its own inputs), ``local`` (the CPU on the HTP's inputs of that op)
        and ``htp``; the index counts along the axes. An input or constant has no ``reference``, and as
        ``local`` what the graph has.

        Args:
            tensor: QNN's name, as in :meth:`layers`.
            method: of the program.
            partition: number of the delegate; needed where several have a tensor of that name.

        Raises:
            UsageError: there is no such layer, or it was not compared.
        """
        import pandas as pd

        layer = self._layer(tensor, method, partition)
        values = values_of(self.recording, layer)
        if values is None:
            raise UsageError(f"{tensor} has no values: {absence(layer)}")
        sides = {"reference": values.reference, "local": values.local, "htp": values.target}
        axes = [range(size) for size in layer.shape] or [range(values.target.size)]
        index = pd.MultiIndex.from_product(axes, names=[f"axis {axis}" for axis in range(len(axes))])
        return pd.DataFrame({name: side for name, side in sides.items() if side is not None}, index=index)

    def _layer(self, tensor: str, method: str, partition: int | None) -> LayerResult:
        named = [one for one in self._answer.layers if (one.tensor, one.method) == (tensor, method)]
        found = [one for one in named if partition in {None, one.partition}]
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(str(one.partition) for one in found)
            fact = f"{len(found)} partitions have a tensor {tensor}"
            raise UsageError(fact, f"say which partition: one of {numbers}")
        close = difflib.get_close_matches(tensor, [one.tensor for one in self._answer.layers], n=1)
        hint = f"did you mean {close[0]!r}?" if close else "layers() lists the tensors"
        raise UsageError(f"{method} has no layer {tensor!r}", hint)


def _frame(rows: Iterable[Sequence[object]], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd  # takes longer to load than most recordings

    return pd.DataFrame.from_records([tuple(row) for row in rows], columns=list(columns))


def _structs(items: Iterable[msgspec.Struct], kind: type[msgspec.Struct]) -> pd.DataFrame:
    """A row each; the metrics of an error become columns of their own, behind its name."""
    names = kind.__struct_fields__
    hints = get_type_hints(kind)
    errors = [name for name in names if ErrorMetrics in get_args(hints[name])]
    columns = [n for name in names for n in ([f"{name}_{m}" for m in METRICS] if name in errors else [name])]
    rows = [
        [cell for name in names for cell in _cells(getattr(item, name), split=name in errors)]
        for item in items
    ]
    return _frame(rows, columns)


def _cells(value: object, *, split: bool) -> list[object]:
    return [getattr(value, metric, None) for metric in METRICS] if split else [value]
