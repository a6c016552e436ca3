"""The report for a terminal: the verdict first, then what it rests on.

It fits 80 columns and uses more where there are. Every colour comes with a sign, so that nothing is lost
without colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from qnndbg.analyze.verdict import empty_comparison
from qnndbg.model.recording import (
    Accuracy,
    Environment,
    Failure,
    Fallback,
    Input,
    Manifest,
    PassEvent,
    RunnerName,
    Stage,
)
from qnndbg.model.result import Comparison, Coverage, LayerResult, Verdict
from qnndbg.report import units
from qnndbg.report.findings import findings_list, sources_table
from qnndbg.report.ladder import ladder_table
from qnndbg.report.ladder import legend as told_alone
from qnndbg.report.layers import ORDERS, Order, layer_table, legend, lsb_or_ulp, ordered, told
from qnndbg.report.standing import reached

SHOWN_LAYERS = 15
FLOOR_LEGEND = "×floor: times what rounding explains"
EFFECT_LEGEND = "effect: share of what the HTP adds"
WORST_LEGEND = "effect: of the HTP's part, worst output"
"""Where there are several outputs; in 80 columns."""
LABEL = 13
"""Cells for the names of the sections below the tables."""


def print_report(
    console: Console,
    manifest: Manifest,
    comparison: Comparison | None,
    passes: tuple[PassEvent, ...],
    *,
    layers: int | None = SHOWN_LAYERS,
    sort: Order = "local",
) -> None:
    """Print what a recording says.

    Args:
        console: where to; its width decides what is shown.
        manifest: the recording's front page.
        comparison: None if the recording did not get that far.
        passes: all pass events.
        layers: how many layers to show at most; None shows everything, also of the other sections.
        sort: the order of the layers.
    """
    answer = comparison or empty_comparison()
    if manifest.failure:
        console.print(_failure(manifest.failure))
    if answer.verdict.kind != "lowering" and (comparison or not manifest.failure):
        console.print(_verdict(answer.verdict))
    console.print(Text(f"\n  {manifest.target} · {manifest.precision} · {manifest.soc}", "bold"))
    if answer.ladder:
        title = _title("Ladder", f"SQNR of the outputs against eager, in dB{told_alone(answer.ladder)}")
        table = ladder_table(answer.ladder, console.width - 2, everything=layers is None)
        console.print(title, Padding(table, (0, 0, 0, 2)), sep="\n")
    if any(layer.accumulated or layer.local for layer in answer.layers):
        console.print(_layers(answer, layers, sort, console.width))
    if answer.sources:
        title = _title("Sources", "where the error of the output is made")
        made = sources_table(answer.sources, everything=layers is None)
        console.print(title, Padding(made, (0, 0, 0, 2)), sep="\n")
    console.print()
    for label, content in _context(manifest, answer, passes, everything=layers is None):
        console.print(_labelled(label, content))


def _failure(failure: Failure) -> RenderableType:
    lines = [Text(f"the recording ends early: {failure.step} failed", "bold red"), Text(failure.error)]
    if failure.node:
        where = ", ".join(part for part in (failure.node.module, failure.node.source) if part)
        lines.append(Text.assemble(("at: ", "bold"), failure.node.op, f" ({where})" if where else ""))
    if failure.hint:
        lines.append(Text.assemble(("hint: ", "bold"), failure.hint))
    return _signed(units.BROKEN, "bold red", Group(*lines))


def _verdict(verdict: Verdict) -> RenderableType:
    sign, style = {
        "clean": (units.SOUND, "bold green"),
        "incomplete": (units.BROKEN, "bold yellow"),
    }.get(verdict.kind, (units.MADE_HERE, "bold red"))
    kind, colon, rest = verdict.text.partition(":")
    line = Text.assemble((kind + colon, style), rest) if colon else Text(verdict.text, style)
    return Group(_signed(sign, style, line), _signed("→", "bold", Text(verdict.next_step)))


def _signed(sign: str, style: str, content: RenderableType) -> Table:
    """A sign, and a text that hangs beside it."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_row(Text(sign, style), content)
    return grid


def _title(name: str, rest: str) -> Text:
    return Text.assemble("\n", (name, "bold"), "  ", (rest, "dim"))


def _layers(answer: Comparison, limit: int | None, sort: Order, width: int) -> Group:
    layers = answer.layers
    compared = told(ordered(layers, sort), layers)
    if limit is None:
        compared = tuple(layer for layer in ordered(layers, sort) if layer.accumulated or layer.local)
    shown = compared[:limit]
    more = "; --all shows all" if len(shown) < len(compared) else ""
    title = _title("Layers", f"{len(shown)} of {len(compared)}, {ORDERS[sort]}{more}")
    signs = (*legend(layers), f"{lsb_or_ulp(layers)} of the worst element")
    effects = any(layer.effect is not None for layer in layers)
    several = len({(rung.method, rung.sample, rung.output) for rung in answer.ladder}) > 1
    effect = WORST_LEGEND if several else EFFECT_LEGEND
    below = [FLOOR_LEGEND, *([effect] if effects else [])]
    lines = "\n".join(f"  {' · '.join(line)}" for line in (signs, below))
    return Group(title, layer_table(shown, layers, width), Text(lines, "dim"))


def _labelled(label: str, content: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=LABEL - 1)
    grid.add_row(Text(label, "bold"), content)
    return grid


def _context(
    manifest: Manifest, answer: Comparison, passes: tuple[PassEvent, ...], *, everything: bool
) -> Iterator[tuple[str, RenderableType]]:
    """The sections below the tables, those that have content."""
    if manifest.accuracy:
        yield "Accuracy", _accuracy(manifest.accuracy)
    if answer.findings:
        yield "Findings", findings_list(answer.findings, everything=everything)
    if answer.coverage.total:
        yield "Coverage", _coverage(answer.coverage, answer.layers if everything else ())
    if fallbacks := [fallback for method in manifest.methods for fallback in method.fallbacks]:
        yield "On the CPU", _fallbacks(fallbacks)
    if manifest.failure and (stages := reached(manifest.failure, passes)):
        yield "Reached", Text(stages)
    if passes:
        yield "Passes", _passes(passes, everything=everything)
    if notes := [*_input_notes(manifest.inputs), *manifest.notes]:
        yield "Notes", Group(*(_signed("•", "", Text(note)) for note in notes))
    yield "Environment", _environment(manifest.environment)


def _input_notes(inputs: tuple[Input, ...]) -> Iterator[str]:
    """What was done to inputs, with method and sample where there are several of them."""
    methods = len({given.method for given in inputs}) > 1
    samples = len({given.sample for given in inputs}) > 1
    for given in inputs:
        if given.note:
            parts = [given.method] * methods + [f"sample {given.sample}"] * samples + [given.name]
            yield f"{' '.join(parts)}: {given.note}"


def _accuracy(accuracy: Accuracy) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for runner in (name for name in get_args(RunnerName) if name in accuracy.correct):
        correct = accuracy.correct[runner]
        share = units.percent(correct, accuracy.samples)
        grid.add_row(runner, Text(share, "bold", justify="right"), f"{correct} of {accuracy.samples}")
    return grid


def _coverage(coverage: Coverage, layers: Iterable[LayerResult]) -> RenderableType:
    """The count; why the others are missing; what was not to be compared; and each one that is missing."""
    style = "" if coverage.compared == coverage.total else "yellow"
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(justify="right")
    grid.add_row(
        Text(str(coverage.compared), style), Text(f"of {coverage.total} QNN tensors compared", style)
    )
    for part, what in ((coverage.constants, "constants"), (coverage.inputs, "inputs")):
        if part.total:
            style = "" if part.same == part.total else "yellow"
            grid.add_row(
                Text(str(part.same), style), Text(f"of {part.total} {what} as the graph has them", style)
            )
    for counts, style in ((coverage.reasons, ""), (coverage.given, "dim")):
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            grid.add_row(Text(str(count), style), Text(reason, style))
    missing = (layer for layer in layers if layer.reason in coverage.reasons)
    return Group(grid, *(Text(f"{layer.tensor}: {layer.reason}", "dim") for layer in missing))


def _fallbacks(fallbacks: Iterable[Fallback]) -> RenderableType:
    """Ops that the HTP does not run, with the reason, equal ones together."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(justify="right")
    for (op, reason), count in Counter((f.op, f.reason) for f in fallbacks).items():
        grid.add_row(Text(str(count), "yellow"), Text.assemble(op, (f"  {reason}", "dim")))
    return grid


def _passes(passes: tuple[PassEvent, ...], *, everything: bool) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stage", no_wrap=True)
    for title in ("run", "changed", "claimed to"):
        table.add_column(title, justify="right", no_wrap=True)
    if everything:
        table.add_column("changed the graph")
    runs = [event for event in passes if event.name]
    seen = {event.stage for event in runs}
    for stage in (stage for stage in get_args(Stage) if stage in seen):
        events = [event for event in runs if event.stage == stage]
        changed = Counter(event.name for event in events if event.changed)
        claimed = sum(event.claimed_modified is True for event in events)
        names = [name if count == 1 else f"{name} ×{count}" for name, count in changed.items()]
        row = [stage, str(len(events)), str(changed.total()), str(claimed)]
        table.add_row(*row, *([Text(", ".join(names), "dim")] if everything else []))
    failed = [Text(_failed_pass(event), "bold red") for event in runs if event.error]
    return Group(table, *failed)


def _failed_pass(event: PassEvent) -> str:
    made_with = ", ".join(f"{name}={value}" for name, value in event.arguments.items())
    return f"{event.name}{f'({made_with})' if made_with else ''} failed: {event.error}"


def _environment(environment: Environment) -> Text:
    parts = [f"qnndbg {environment.qnndbg}", f"Python {environment.python}"]
    parts += [f"{name} {version}" for name, version in sorted(environment.packages.items())]
    if environment.qnn_build:
        parts.append(f"QNN {environment.qnn_build}")
    if environment.sdk:
        parts.append(f"SDK from {environment.sdk}")
    return Text(" · ".join([*parts, environment.host]), "dim")
