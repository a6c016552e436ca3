"""Sentences about a difference: where two lowerings part, and what became of the numbers."""

from __future__ import annotations

from collections import Counter

from qnndbg.analyze.diff.layers import VISIBLE_DB, gained
from qnndbg.model.diff import Change, Diff, OutputDiff, Parting, PassRun, RungDiff, Scalar, Side
from qnndbg.model.result import ErrorMetrics
from qnndbg.report import units

ENCODING = (
    *("number of scales", "number of zero points", "scale", "zero point", "qmin", "qmax"),
    *("stored dtype", "scheme", "axis", "block size"),
)
"""Parts of an encoding."""
DIGEST = 32
"""Characters of a digest, of which a report shows the first eight."""


def headline(diff: Diff) -> str:
    """Same or not, and where they part; the part before the colon is the verdict."""
    if diff.same:
        unless = ", though the environment differs" if diff.environment else ""
        ended = diff.a.complete and not diff.a.failure  # and so is B, or they would not be the same
        what = "passes, graphs, QNN graphs and numbers" if ended else "all that there is; both end early"
        but = ", but for the rounding of float32 on the CPU" if rounded(diff) else ""
        return f"same: {what}{but}{unless}"
    if diff.first_parting is None:
        return f"different: {_rest(diff)}"
    return f"different: {parted(diff.first_parting)}"


def page_words(page: Side) -> str:
    """What was recorded, and how it ended if that was early."""
    words = [word for word in (page.target, page.precision, page.soc) if word]
    if page.failure:
        words.append(f"ends early: {page.failure}")
    elif not page.complete:
        words.append("not complete")
    return " · ".join(words)


def rounded(diff: Diff) -> bool:
    """Whether the CPU gave answers that differ by no more than its kernels may between two runs of them."""
    return any(output.rounding for output in diff.outputs)


def output_words(output: OutputDiff) -> str:
    """What is different about one output of one runner."""
    if output.note:
        return output.note
    small = ", by no more than float32 rounds" if output.rounding else ""
    return f"{output.mismatched} of {output.elements} elements differ{small}"


def _rest(diff: Diff) -> str:
    """What differs where nothing parted: the graphs are all the same."""
    if diff.passes:
        return "the passes, though every graph is the same"
    if diff.a.complete != diff.b.complete or diff.a.failure != diff.b.failure:
        return "one recording ends early"
    return "the program, though every graph is the same"


def parted(parting: Parting) -> str:
    """One sentence on where the two part."""
    only = "A" if parting.b is None else "B"
    name = _pass_name(parting.a, parting.b) or f"the graph with which {parting.stage} begins"
    place = _place(parting)
    words = {
        "start": f"the models differ before any pass ({place})",
        "between": f"they part between two passes, at {name} ({place})",
        "behaviour": f"{name} ({place}) got the same graph and made another one",
        "only-in-one": f"{name} ({place}) is in {only} only",
        "order": f"passes run in another order, from {name} on ({place})",
        "failed": f"{name} ({place}) failed on one side only{_errors(parting)}",
        "partitions": f"partition {parting.partition} of {parting.method} is in {only} only",
        "qnn": f"equal graphs became different QNN graphs, first at {parting.what}",
        "program": f"equal QNN graphs became different programs ({parting.what})",
        "inputs": f"the lowerings are the same, the inputs are not ({parting.what} of {parting.method})",
        "reference": f"equal graphs and inputs, yet the CPU's answer differs, first in run {parting.what}",
        "htp": f"all graphs are the same, only the HTP's numbers differ, first {parting.what}",
    }
    if parting.kind == "behaviour" and parting.stage == "partition":
        return f"the same graph was partitioned otherwise, by {name}"
    if parting.kind == "only-in-one" and parting.a and parting.b:
        return f"B runs {parting.b.name or 'nothing'} where A runs {parting.a.name or 'nothing'} ({place})"
    return words[parting.kind]


def _pass_name(a: PassRun | None, b: PassRun | None) -> str:
    return (b or a or PassRun(index=0, name="")).name


def _place(parting: Parting) -> str:
    words = [parting.stage]
    words += [parting.method] if parting.method != "forward" else []
    words += [f"partition {parting.partition}"] if parting.partition is not None else []
    return ", ".join(words)


def _errors(parting: Parting) -> str:
    sides = (("A", parting.a), ("B", parting.b))
    return "".join(f"; {side}: {run.error}" for side, run in sides if run and run.error)


def moved(diff: Diff) -> str:
    """What became of the worst output: its error on the last rung, and the first rung that moved."""
    last = [rungs[-1] for rungs in outputs(diff.rungs).values()]
    known = [rung for rung in last if decibels(rung.a) is not None and decibels(rung.b) is not None]
    if not known:
        return "the outputs' errors against eager are the same" if not diff.rungs else ""
    worst = max(known, key=lambda rung: (abs(delta(rung) or 0.0), rung.method, -rung.output))
    rungs = outputs(diff.rungs)[worst.method, worst.output]
    first = next((rung.name for rung in rungs if significant(rung)), "")
    where = f"output {worst.output}" + (f" of {worst.method}" if worst.method != "forward" else "")
    pair = f"{units.decibels(worst.a)} dB in A, {units.decibels(worst.b)} dB in B"
    behind = f"; the first rung to move is {first}" if first else ""
    return f"{where} at {worst.name}: {pair} ({change_of(worst)}){behind}"


def change_of(rung: RungDiff) -> str:
    """Decibels that B has over A, or what became of equality."""
    if rung.a is None or rung.b is None or rung.a.sqnr_db is None or rung.b.sqnr_db is None:
        return units.NONE
    if bool(rung.a.mismatched) != bool(rung.b.mismatched):
        return "now equal" if rung.a.mismatched else "was equal"
    if rung.a.sqnr_db == rung.b.sqnr_db:
        return units.EQUAL
    if not significant(rung):
        return "<0.1 dB" if delta(rung) else "rounding"
    return f"{units.signed(rung.b.sqnr_db - rung.a.sqnr_db, plus=True)} dB"


def shown(rung: RungDiff) -> bool:
    """Whether a ladder shows the rung: eager is the measure, and only its absence is news."""
    return rung.name != "eager" or (rung.a is None) != (rung.b is None)


def regressed(diff: Diff) -> str:
    """The first layer whose own error grew, and what else is different about it."""
    layer = next((layer for layer in diff.layers if layer.status == "regressed"), None)
    if layer is None or layer.b is None:
        return ""
    where = f" in {layer.b.module}" if layer.b.module else ""
    changed = "; ".join(map(change_text, layer.changes)) or "nothing else about it changed"
    return f"first layer to regress: {layer.b.tensor}{where} ({changed})"


def outputs(rungs: tuple[RungDiff, ...]) -> dict[tuple[str, int], list[RungDiff]]:
    """The rungs of each output."""
    found: dict[tuple[str, int], list[RungDiff]] = {}
    for rung in rungs:
        found.setdefault((rung.method, rung.output), []).append(rung)
    return found


def decibels(error: ErrorMetrics | None) -> float | None:
    """The SQNR, if there is one."""
    return None if error is None else error.sqnr_db


def delta(rung: RungDiff) -> float | None:
    """Decibels that B has over A; what is closer to eager than float32 rounds is equal to it."""
    a, b = decibels(rung.a), decibels(rung.b)
    return None if a is None or b is None else gained(a, b)


def significant(rung: RungDiff) -> bool:
    """Both sides have it, and it moved by as much as a report shows."""
    return abs(delta(rung) or 0.0) >= VISIBLE_DB


def change_text(change: Change) -> str:
    """Such as ``scale 0.0123 → 0.0456``."""
    count = f" (most of {change.count})" if change.count > 1 else ""
    return f"{change.what} {scalar(change.a)} → {scalar(change.b)}{count}"


def summed(changes: tuple[Change, ...]) -> str:
    """What kinds of changes there are, those of an encoding as one."""
    words = []
    for change in changes:
        ending = next((part for part in ENCODING if change.what.endswith(part)), "")
        words.append(change.what.removesuffix(ending) + "encoding" if ending else change.what)
    return ", ".join(dict.fromkeys(words))


def scalar(value: Scalar) -> str:
    """A value as short as it can be told from its like."""
    if value is None or value == "":
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text[:8] if len(text) == DIGEST and set(text) <= set("0123456789abcdef") else text


def counted(counts: Counter[str], order: tuple[str, ...]) -> str:
    """Such as ``2 regressed, 1 fixed``."""
    return ", ".join(f"{counts[word]} {word}" for word in order if counts[word])
