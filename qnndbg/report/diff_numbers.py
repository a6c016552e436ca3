"""Outputs, accuracy and sizes of two recordings, side by side."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from qnndbg.model.diff import Diff, OutputDiff, RungDiff
from qnndbg.report import units
from qnndbg.report.columns import aligned
from qnndbg.report.diff_words import change_of, delta, output_words, outputs, scalar, shown, significant

SHOWN_ENDS = 8
EVERY_RUNG = 6
"""Outputs up to this number are shown rung by rung; of more, those that moved most."""


def number_section(diff: Diff) -> RenderableType:
    """The ladders of both sides, and the outputs of one against the other."""
    found = outputs(diff.rungs)
    parts: list[RenderableType] = [Text("SQNR against eager, in dB", "dim")] if found else []
    ranked = sorted(found, key=lambda key: max(abs(delta(rung) or 0.0) for rung in found[key]), reverse=True)
    for key in sorted(ranked[:EVERY_RUNG]):
        parts.append(_ladder(key, found[key]))
    if len(found) > EVERY_RUNG:
        parts.append(Text(f"… {len(found) - EVERY_RUNG} outputs that moved less", "dim"))
    parts += [Text(_output(output)) for output in _ends(diff.outputs)]
    if diff.outputs_note:
        parts.append(Text(diff.outputs_note))
    return Group(*parts)


def _ends(outputs: tuple[OutputDiff, ...]) -> list[OutputDiff]:
    """Of each output that differs, what the first and the last runner gave."""
    found: dict[tuple[str, int, int], list[OutputDiff]] = {}
    for output in outputs:
        found.setdefault((output.method, output.sample, output.output), []).append(output)
    return [end for group in found.values() for end in dict.fromkeys((group[0], group[-1]))][:SHOWN_ENDS]


def _ladder(key: tuple[str, int], rungs: list[RungDiff]) -> Table:
    method, output = key
    name = f"output {output}" + (f" of {method}" if method != "forward" else "")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(name, no_wrap=True)
    for title in ("A", "B", "change"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    first = next((rung for rung in rungs if significant(rung)), None)
    for rung in filter(shown, rungs):
        mark = Text("first to move", "bold red") if rung is first else Text()
        table.add_row(rung.name, units.decibels(rung.a), units.decibels(rung.b), change_of(rung), mark)
    return table


def _output(output: OutputDiff) -> str:
    where = f"B against A, {output.runner}"
    where += "" if output.method == "forward" else f" of {output.method}"
    where += f", sample {output.sample}" if output.sample else ""
    where += f", output {output.output}"
    if output.note:
        return f"{where}: {output.note}"
    noise = units.NONE if output.sqnr_db is None else f"{units.signed(output.sqnr_db)} dB"
    return f"{where}: {noise}, {output_words(output)}"


def accuracy_section(diff: Diff, room: int) -> RenderableType:
    """How many samples each runner gets right."""
    return _changes([(c.what, scalar(c.a), scalar(c.b), "") for c in diff.accuracy], room)


def size_section(diff: Diff, room: int) -> RenderableType:
    """Bytes and numbers of ops, with their ratio."""
    rows = []
    for change in diff.sizes:
        a, b = change.a, change.b
        ratio = ""
        if isinstance(a, int) and isinstance(b, int) and a:
            ratio = f"{units.signed(100 * (b - a) / a, plus=True)} %"
        rows.append((change.what, scalar(a), scalar(b), ratio))
    return _changes(rows, room)


def _changes(rows: list[tuple[str, str, str, str]], room: int) -> RenderableType:
    cells = [(what, a, "→", b, ratio) for what, a, b, ratio in rows]
    return Group(*aligned(cells, room, limits=(None,) * 5, right=(1, 3, 4)))
