"""The sections of words: verdict, sources, findings, coverage, passes, environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import get_args

from qnndbg.analyze.phrases import counted, culprit_name
from qnndbg.analyze.verdict import final_rung
from qnndbg.model.recording import Failure, Fallback, Manifest, PassEvent, Stage
from qnndbg.model.result import Comparison, Coverage, Finding, Source
from qnndbg.report import units
from qnndbg.report.findings import output_of, source_groups
from qnndbg.report.html.markup import Content, Markup, Section, card, el, section, table
from qnndbg.report.html.page import Page
from qnndbg.report.layers import held_as_given
from qnndbg.report.standing import place, reached, standings

TONES = {"clean": "good", "incomplete": "unsure"}
"""Kind of verdict to how it looks; all others are bad."""


def headline(page: Page) -> Markup:
    """The verdict in a word, for the bar at the top."""
    kind = page.comparison.verdict.kind if page.manifest.failure is None else "lowering"
    return el("span", kind, class_=f"pill {TONES.get(kind, 'bad')}")


def verdict(page: Page) -> Section:
    """The verdict, what to try next, and the numbers that say most."""
    answer, failure = page.comparison, page.manifest.failure
    parts: list[Content] = [_failure(failure, page.passes)] if failure is not None else []
    if failure is None or (page.has_comparison and answer.verdict.kind != "lowering"):
        kind, _, rest = answer.verdict.text.partition(":")
        tone = TONES.get(answer.verdict.kind, "bad")
        text = el("p", el("strong", kind, class_=f"kind {tone}"), " ", rest.strip(), class_="fact")
        step = el("p", el("span", "Next", class_="label"), answer.verdict.next_step, class_="next")
        parts.append(card(text, step, kind=f"verdict {tone}"))
    problems = [el("li", problem) for problem in page.problems]
    parts.append(el("ul", problems, class_="problems") if problems else None)
    return section("verdict", "Verdict", *parts, _tiles(page))


def _failure(failure: Failure, events: tuple[PassEvent, ...]) -> Markup:
    stages = reached(failure, events)
    where = place(failure.node.module, failure.node.source) if failure.node else ""
    at = f"at {failure.node.op}{f' ({where})' if where else ''}" if failure.node else ""
    return card(
        el("p", el("strong", f"{failure.step} failed", class_="kind bad"), " ", failure.error, class_="fact"),
        el("p", at) if at else None,
        el("p", el("span", "Reached", class_="label"), stages) if stages else None,
        el("p", el("span", "Hint", class_="label"), failure.hint, class_="next") if failure.hint else None,
        kind="verdict bad",
    )


def _tiles(page: Page) -> Markup:
    answer = page.comparison
    final = final_rung(answer.ladder)
    standing = Counter(standings(answer.layers))
    severities = Counter(found.severity for found in answer.findings)
    kept = sum(len(method.fallbacks) for method in page.manifest.methods)
    worst = units.decibels(final.against_eager) if final else units.NONE
    loud = severities["error"] + severities["warning"]
    partitions = sum(method.partitions for method in page.manifest.methods)
    tiles = [
        _tile("worst output against eager", "bit-equal" if worst == units.EQUAL else worst, "dB"),
        _tile("layers that make errors", str(standing["made here"]), f"of {len(answer.layers)}"),
        _tile("QNN tensors compared", str(answer.coverage.compared), f"of {answer.coverage.total}"),
        _tile("errors and warnings", str(loud), f"and {counted(severities['note'], 'note')}"),
        _tile("ops on the CPU", str(kept), f"beside {counted(partitions, 'partition')}"),
    ]
    if page.manifest.accuracy is not None:
        correct, samples = page.manifest.accuracy.correct, page.manifest.accuracy.samples
        for runner in ("eager", "htp"):
            if runner in correct:
                share = units.percent(correct[runner], samples)
                tiles.append(_tile(f"accuracy, {runner}", share, f"of {samples}"))
    return el("dl", tiles, class_="tiles")


def _tile(label: str, value: str, unit: str) -> Markup:
    shown = unit if value[:1].isdigit() or value.startswith(units.signed(-1.0)[0]) else ""
    return el("div", el("dt", label), el("dd", value, " ", el("small", shown)))


def sources(answer: Comparison) -> Section | None:
    """Bars of who makes which share of the worst output's error, step by step."""
    groups = source_groups(answer.sources, everything=False)
    if not groups:
        return None
    cards = [
        card(
            el("h3", ", ".join(filter(None, (group[0].step, output_of(group[0], answer.sources))))),
            el("ol", [_source(source) for source in group], class_="sources"),
        )
        for group in groups
    ]
    note = "who makes the error of the output, step by step"
    return section("sources", "Sources", el("div", cards, class_="columns"), note=note)


def _source(source: Source) -> Markup:
    width = f"width:{min(abs(source.share), 1.0):.1%}"
    name = el("button", culprit_name(source), type="button", class_="link", data_find=source.name)
    bar = el("span", el("span", style=width, class_="less" if source.share < 0 else None), class_="meter")
    where = place(source.module, source.source)
    return el(
        "li",
        el("b", units.effect(source.share), class_="num"),
        el("div", name, bar, el("p", source.detail, el("span", where, class_="where"))),
    )


def findings(found: tuple[Finding, ...]) -> Section | None:
    """Errors and warnings open, notes folded away, each with its evidence and what helps."""
    if not found:
        return None
    loud = [_finding(f) for f in found if f.severity != "note"]
    notes = [_finding(f) for f in found if f.severity == "note"]
    quiet = el("details", el("summary", counted(len(notes), "note")), el("ul", notes, class_="findings"))
    return section(
        "findings",
        "Findings",
        el("ul", loud, class_="findings") if loud else el("p", "No errors and no warnings.", class_="quiet"),
        quiet if notes else None,
        note="rules that hold for this recording",
    )


def _finding(found: Finding) -> Markup:
    where = place(found.module, found.source)
    return el(
        "li",
        el("p", el("span", found.severity, class_=f"pill {found.severity}"), el("code", found.rule), " ",
           found.message, class_="fact"),
        el("p", found.evidence, class_="quiet") if found.evidence else None,
        el("p", el("code", found.where), f" {where}" if where else None, class_="where"),
        el("p", el("span", "Help", class_="label"), found.help) if found.help else None,
        class_=f"card {found.severity}",
    )  # fmt: skip


def coverage(manifest: Manifest, counted: Coverage) -> Section:
    """What was compared, what was not and why, and what stays on the CPU."""
    share = counted.share
    bar = el("div", el("div", style=f"width:{share or 0:.1%}"), class_="progress", aria_hidden="true")
    rows = [
        [str(count), reason, what]
        for counts, what in ((counted.reasons, "not compared"), (counted.given, "not to be compared"))
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    text = el("p", el("b", f"{counted.compared} of {counted.total}"), " QNN tensors that an op computes")
    held = [el("p", sentence) for sentence in held_as_given(counted)]
    kept = [fallback for method in manifest.methods for fallback in method.fallbacks]
    listed = table(("count", "reason", ""), rows, caption="Tensors that are not compared", numeric=(0,))
    on_cpu = [el("h3", "On the CPU"), _fallbacks(kept)] if kept else None
    return section(
        "coverage",
        "Coverage",
        card(text, bar, held, listed if rows else None, on_cpu),
        note="what was compared, and why the rest was not",
    )


def _fallbacks(kept: Iterable[Fallback]) -> Markup:
    counts = Counter((fallback.method, fallback.op, fallback.reason) for fallback in kept)
    rows = [[str(count), method, el("code", op), reason] for (method, op, reason), count in counts.items()]
    return table(("count", "method", "op", "reason"), rows, caption="Ops on the CPU", numeric=(0,))


def passes(events: tuple[PassEvent, ...]) -> Section | None:
    """Per stage: how many passes ran, and which of them changed the graph or failed."""
    runs = [event for event in events if event.name]
    if not runs:
        return None
    rows = []
    for stage in (s for s in get_args(Stage) if any(event.stage == s for event in runs)):
        mine = [event for event in runs if event.stage == stage]
        claimed = sum(event.claimed_modified is True for event in mine)
        strip = el("div", [_tick(event) for event in mine], class_="strip")
        named = Counter(event.name for event in mine if event.changed)
        names = [el("span", name if n == 1 else f"{name} ×{n}", class_="chip") for name, n in named.items()]
        failed = [el("p", f"{e.name} failed: {e.error}", class_="failed") for e in mine if e.error]
        rows.append([stage, str(len(mine)), str(named.total()), str(claimed), [strip, *names, *failed]])
    titles = ("stage", "run", "changed", "claimed to", "in their order; those that changed the graph by name")
    listed = table(titles, rows, caption="Passes by stage", numeric=(1, 2, 3))
    return section("passes", "Passes", card(listed), note="every pass run of the lowering")


def _tick(event: PassEvent) -> Markup:
    kind = "failed" if event.error else "changed" if event.changed else ""
    what = "failed" if event.error else "changed the graph" if event.changed else "left the graph as it was"
    return el("i", class_=kind or None, title=f"{event.name}: {what}")


def environment(page: Page) -> Section:
    """Versions and notes: all outside the model that can change an answer."""
    manifest = page.manifest
    known = manifest.environment
    rows = [("qnndbg", known.qnndbg), ("Python", known.python), *sorted(known.packages.items())]
    rows += [("QNN", known.qnn_build), ("SDK from", known.sdk), ("host", known.host)]
    rows += [("recording schema", str(manifest.schema)), ("complete", "yes" if manifest.complete else "no")]
    rows += [("op packages", ", ".join(manifest.op_packages))]
    pairs = [el("div", el("dt", name), el("dd", value)) for name, value in rows if value]
    inputs = [
        [
            given.method,
            str(given.sample),
            given.name,
            given.tensor.dtype,
            _shape(given.tensor.shape),
            given.note,
        ]
        for given in manifest.inputs
    ]
    notes = el("ul", [el("li", note) for note in manifest.notes], class_="notes")
    titles = ("method", "sample", "input", "dtype", "shape", "note")
    listed = table(titles, inputs, caption="Inputs") if inputs else None
    return section(
        "environment",
        "Environment",
        card(
            el("dl", pairs, class_="pairs"),
            notes if manifest.notes else None,
            [el("h3", "Inputs"), listed] if listed else None,
        ),
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"
