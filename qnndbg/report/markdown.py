"""Markdown for a pull request: the verdict and what it rests on in a screenful, the rest folded away.

Everything that comes from the recording is escaped, so that it can neither mention a person nor make markup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from qnndbg.analyze.phrases import culprit_name, short_op
from qnndbg.analyze.verdict import empty_comparison, quality
from qnndbg.model.recording import Environment, Failure, Manifest, PassEvent
from qnndbg.model.result import Comparison, Coverage, Finding, LayerResult, Rung, Source
from qnndbg.report import units
from qnndbg.report.findings import SHOWN_SOURCES, output_of, source_groups
from qnndbg.report.ladder import by_output, change, folded, output_title
from qnndbg.report.ladder import legend as told_alone
from qnndbg.report.layers import ORDERS, held_as_given, legend, lsb_or_ulp, ordered, told
from qnndbg.report.standing import place, reached, standings

SHOWN_LAYERS = 20
SHOWN_FINDINGS = 10
SHOWN_OUTPUTS = 8
"""Of what is folded away too: a comment on a pull request may not be longer than 65536 characters."""
SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")
LINKED = re.compile(r"([@#])(?=\w)")
"""What GitHub turns into a mention or a reference, even if it is escaped."""
LEADING = re.compile(r"^([-+]|\d+(?=[.)](?:\s|$)))")
"""What makes a list at the start of a line."""
SIGNS = {"made here": units.MADE_HERE, "inherited": units.INHERITED, None: ""}


def markdown_report(manifest: Manifest, comparison: Comparison | None, passes: tuple[PassEvent, ...]) -> str:
    """What a recording says, as GitHub's Markdown.

    Args:
        manifest: the recording's front page.
        comparison: None if the recording did not get that far.
        passes: all pass events.
    """
    answer = comparison or empty_comparison()
    blocks = list(_head(manifest, answer, passes, has_comparison=comparison is not None))
    loud = [found for found in answer.findings if found.severity != "note"]
    if answer.ladder:
        blocks.append(_ladder(_worst(answer.ladder)))
    if answer.sources:
        blocks.append(_sources(answer.sources))
    if loud:
        blocks += ["**Findings**", _findings(loud[:SHOWN_FINDINGS])]
    blocks += _folded_away(manifest, answer, passes, loud)
    return "\n\n".join(blocks) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    """A table of cells that are Markdown already.

    Args:
        header: titles of the columns.
        rows: as wide as the header.
        align: ``l`` or ``r`` for each column.
    """
    rule = ["---:" if side == "r" else "---" for side in align]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def details(summary: str, body: str) -> str:
    """A block that is folded away behind its summary."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def escaped(text: str) -> str:
    """Text that stands for itself."""
    plain = SPECIAL.sub(r"\\\1", _line(text).replace("&", "&amp;"))
    return LEADING.sub(r"<!-- -->\1", LINKED.sub(r"\1<!-- -->", plain))


def _line(text: str) -> str:
    """Text in one line, without what commands a terminal that the report is printed on."""
    return " ".join(text.split()).translate(units.CONTROLS)


def code(text: str) -> str:
    """Text as it is in the code; in a table's cell too."""
    plain = _line(text).replace("|", "\u2223")
    if not plain:
        return ""
    return f"`{plain}`" if "`" not in plain else f"`` {plain.replace('``', '` `')} ``"


def _head(
    manifest: Manifest, answer: Comparison, passes: tuple[PassEvent, ...], *, has_comparison: bool
) -> Iterator[str]:
    verdict = answer.verdict
    sound = verdict.kind == "clean" and manifest.failure is None
    about = " · ".join(map(escaped, (manifest.target, manifest.precision, manifest.soc)))
    yield f"### {units.SOUND if sound else units.BROKEN} qnndbg: {about}"
    if manifest.failure is not None:
        yield _failure(manifest.failure)
        if stages := reached(manifest.failure, passes):
            yield f"Reached: {escaped(stages)}"
    if manifest.failure is None or (has_comparison and verdict.kind != "lowering"):
        kind, colon, rest = verdict.text.partition(":")
        yield f"> **{escaped(kind)}**{colon} {escaped(rest)}\n>\n> → {escaped(verdict.next_step)}"


def _failure(failure: Failure) -> str:
    lines = [f"**the recording ends early**: {escaped(failure.step)} failed: {escaped(failure.error)}"]
    if failure.node is not None:
        where = place(failure.node.module, failure.node.source)
        lines.append(f"at {code(failure.node.op)}{f' ({escaped(where)})' if where else ''}")
    if failure.hint:
        lines.append(f"→ {escaped(failure.hint)}")
    return "\n>\n".join(f"> {line}" for line in lines)


def _worst(ladder: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """The rungs of the output that ends furthest from eager."""
    worst: list[Rung] = min(by_output(ladder).values(), key=_ends_at)
    return tuple(worst)


def _ends_at(rungs: list[Rung]) -> float:
    return quality(rungs[-1].against_eager)


def _ladder(ladder: tuple[Rung, ...]) -> str:
    """One output's rungs, those that agree bit for bit in one row."""
    rows: list[tuple[str, str, str]] = []
    before: Rung | None = None
    for same in folded(list(ladder), everything=False):
        name = same[0].name if len(same) == 1 else f"{same[0].name} … {same[-1].name}"
        error = units.decibels(same[-1].against_eager) if before else ""
        rows.append((escaped(name), error, escaped(change(before, same[-1]).plain.strip())))
        before = same[-1]
    return table(("rung", "SQNR dB", f"change{told_alone(ladder)}"), rows, "lrl")


def _sources(sources: tuple[Source, ...]) -> str:
    rows = [
        (
            units.effect(source.share),
            ", ".join(filter(None, (source.step, output_of(source, sources)))),
            code(culprit_name(source)),
            escaped(source.detail),
            code(place(source.module, source.source)),
        )
        for group in source_groups(sources, everything=False)
        for source in group[:SHOWN_SOURCES]
    ]
    return table(("share", "step", "source", "why", "where"), rows, "rllll")


def _findings(findings: Iterable[Finding]) -> str:
    return "\n".join(map(_finding, findings))


def _finding(found: Finding) -> str:
    where = place(found.module, found.source)
    evidence = f" ({escaped(found.evidence)})" if found.evidence else ""
    line = f"- **{found.severity} {escaped(found.rule)}** {escaped(found.message)}{evidence}"
    line += f" at {code(where)}" if where else ""
    return f"{line}  \n  → {escaped(found.help)}" if found.severity != "note" and found.help else line


def _folded_away(
    manifest: Manifest, answer: Comparison, passes: tuple[PassEvent, ...], loud: list[Finding]
) -> Iterator[str]:
    compared = told(ordered(answer.layers, "local"), answer.layers)
    if compared:
        shown = compared[:SHOWN_LAYERS]
        yield details(
            f"Layers: {len(shown)} of {len(compared)}, {ORDERS['local']}", _layers(shown, answer.layers)
        )
    outputs = sorted(by_output(answer.ladder).items(), key=lambda of: quality(of[1][-1].against_eager))
    if len(outputs) > 1:
        ladders = (
            f"**{escaped(output_title(key, answer.ladder))}**\n\n{_ladder(tuple(rungs))}"
            for key, rungs in outputs[:SHOWN_OUTPUTS]
        )
        yield details(
            f"Outputs: {min(len(outputs), SHOWN_OUTPUTS)} of {len(outputs)}, the worst first",
            "\n\n".join(ladders),
        )
    if len(loud) > SHOWN_FINDINGS:
        rest = loud[SHOWN_FINDINGS : 2 * SHOWN_FINDINGS]
        yield details(f"{len(loud) - SHOWN_FINDINGS} more errors and warnings", _findings(rest))
    if notes := [found for found in answer.findings if found.severity == "note"]:
        shown_notes = notes[: 2 * SHOWN_FINDINGS]
        yield details(f"Notes: {len(shown_notes)} of {len(notes)}", _findings(shown_notes))
    yield details("Coverage, passes and environment", _context(manifest, answer.coverage, passes))


def _layers(layers: Sequence[LayerResult], everyone: tuple[LayerResult, ...]) -> str:
    unit = lsb_or_ulp(everyone)
    standing = dict(zip(everyone, standings(everyone), strict=True))
    rows = [
        (
            f"{SIGNS[standing[layer]]}{escaped(units.FUSED) if layer.fused else ''}",
            code(layer.tensor),
            code(short_op(layer.op) or layer.given),
            code(place(layer.module, layer.source)),
            f"{units.steps(layer.accumulated, unit)} / {units.decibels(layer.accumulated)}",
            f"{units.steps(layer.local, unit)} / {units.decibels(layer.local)}",
            units.times(layer.excess),
            units.effect(layer.effect),
        )
        for layer in layers
    ]
    titles = (
        "",
        "tensor",
        "op",
        "where",
        f"accumulated {unit} / dB",
        f"local {unit} / dB",
        "×floor",
        "effect",
    )
    return f"{table(titles, rows, 'llllrrrr')}\n\n{' · '.join(map(escaped, legend(everyone)))}"


def _context(manifest: Manifest, coverage: Coverage, passes: tuple[PassEvent, ...]) -> str:
    lines = [f"- {coverage.compared} of {coverage.total} QNN tensors compared"]
    lines += [f"- {part}" for part in held_as_given(coverage)]
    lines += [f"  - {count} {escaped(reason)}" for reason, count in sorted(coverage.reasons.items())]
    fallbacks = Counter((f.op, f.reason) for method in manifest.methods for f in method.fallbacks)
    lines += [
        f"- on the CPU: {count} {code(op)} {escaped(why)}" for (op, why), count in sorted(fallbacks.items())
    ]
    runs = [event for event in passes if event.name]
    changed = sum(event.changed for event in runs)
    lines.append(f"- {len(runs)} passes, of which {changed} changed the graph")
    lines += [f"- {escaped(event.name)} failed: {escaped(event.error)}" for event in runs if event.error]
    if manifest.accuracy is not None:
        samples = manifest.accuracy.samples
        shares = (
            f"{name} {units.percent(right, samples)}" for name, right in manifest.accuracy.correct.items()
        )
        lines.append(f"- accuracy on {samples} samples: {', '.join(map(escaped, shares))}")
    lines += [f"- {escaped(note)}" for note in manifest.notes]
    return "\n".join([*lines, f"- {escaped(environment_line(manifest.environment))}"])


def environment_line(environment: Environment) -> str:
    """The versions in one line."""
    parts = [f"qnndbg {environment.qnndbg}", f"Python {environment.python}"]
    parts += [f"{name} {version}" for name, version in sorted(environment.packages.items())]
    parts += [f"QNN {environment.qnn_build}"] if environment.qnn_build else []
    return " · ".join([*parts, environment.host])
