"""The overview: what is wrong, where it starts, and how much of the recording could be looked at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.widget import Widget

from qnndbg.analyze.budget import budget
from qnndbg.analyze.phrases import culprit_name
from qnndbg.analyze.verdict import SAME_NUMBERS_DB, final_rung, quality
from qnndbg.model.result import Rung, Source
from qnndbg.report import ladder, units
from qnndbg.report.findings import output_of
from qnndbg.tui.culprit import place_of
from qnndbg.tui.log import LOG
from qnndbg.tui.page import Page, blank, title
from qnndbg.tui.places import FindingAt, NodeAt, OutputAt, PageAt, PassAt, Place
from qnndbg.tui.sheet import Content, Line, Lines, Sheet
from qnndbg.tui.twins import failing
from qnndbg.tui.words import SIGNS, wrapped

WIDE = 110
"""From here on there are two columns."""
SHOWN_OUTPUTS = 3
SHOWN_SOURCES = 4
BELOW = 12
"""Cells before what stands below a source."""
NAME = 20
"""Cells for the name of a rung."""


class Overview(Page):
    """The answer of a recording on one screen."""

    label = "Overview"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab,left,right", "other", "Other side")]
    DEFAULT_CSS = (
        "Overview Sheet.hidden { display: none; } Overview #right { border-left: solid $primary 40%; }"
    )

    def body(self) -> Sequence[Widget]:
        """One column, or two."""
        self.left = Sheet(self._left, id="left")
        self.right = Sheet(self._right, id="right")
        return (Horizontal(self.left, self.right),)

    def on_resize(self, event: Resize) -> None:
        """Use two columns where there is room for them."""
        self.right.set_class(event.size.width < WIDE, "hidden")

    def here(self) -> Place:
        """The overview."""
        return PageAt("overview")

    def status(self) -> Text:
        """How to go on."""
        return Text(" Enter goes to what a line is about", "faint")

    def offers(self, action: str) -> bool:
        """There is another side where there are two columns."""
        return self.size.width >= WIDE if action == "other" else super().offers(action)

    def action_other(self) -> None:
        """Move between the columns."""
        if self.size.width < WIDE:
            self.shell.say(f"there is one column; two need {WIDE} cells")
            return
        (self.right if self.left.has_focus else self.left).focus()

    def _left(self, width: int) -> Content:
        lines = [*self._verdict(width), *self._ladder(width), *self._budget(width)]
        if self.size.width < WIDE:
            lines += self._details(width)
        else:
            lines += [blank(), *self._environment(width)]
        return Lines(lines)

    def _right(self, width: int) -> Content:
        return Lines([*self._details(width, first=True)])

    def _details(self, width: int, *, first: bool = False) -> Iterator[Line]:
        sections = [self._sources(width), self._findings(width), self._coverage(width)]
        if not first:
            sections.append(self._environment(width))
        for section in sections:
            lines = list(section)
            if lines and not first:
                yield blank()
            first = first and not lines
            yield from lines

    def _verdict(self, width: int) -> Iterator[Line]:
        verdict, manifest = self.session.answer.verdict, self.session.recording.manifest
        failure = manifest.failure
        if failure is not None and verdict.kind != "lowering":  # that verdict says it all
            text = f"{failure.step} failed: {failure.error}"
            where = failing(self.session)
            yield from _hanging(units.BROKEN, "bad", text, width, where, failure)
            if failure.hint:
                yield from _hanging("→", "", failure.hint, width, where, failure)
            yield from self._log()
        damage = self.session.recording.damage()
        if damage:
            yield Line(Text(f"{units.BROKEN} the recording is damaged: {damage}", "bad"), data=damage)
        if failure is not None and verdict.kind != "lowering":
            return
        sign, style = {"clean": (units.SOUND, "good"), "incomplete": (units.BROKEN, "warn")}.get(
            verdict.kind, (units.MADE_HERE, "made")
        )
        place = self._culprit()
        yield from _hanging(sign, style, verdict.text, width, place, verdict, strong=True)
        yield from _hanging("→", "", verdict.next_step, width, place, verdict)
        if failure is not None:
            yield from self._log()

    def _log(self) -> Iterator[Line]:
        path = self.session.recording.folder / LOG
        if path.is_file():
            yield Line(Text(f"→ L shows {LOG}, what was written meanwhile", "link"), PageAt("log"))

    def _culprit(self) -> Place | None:
        """What the verdict blames."""
        verdict, session = self.session.answer.verdict, self.session
        if verdict.kind == "lowering":
            return failing(session)
        if verdict.kind == "pass":
            return self._pass_named(verdict.culprit)
        if verdict.culprit in session.named:
            return session.named[verdict.culprit]
        sources = [s for s in session.answer.sources if s.name == verdict.culprit]
        return place_of(self.session, sources[0]) if sources else PageAt("layers")

    def _pass_named(self, name: str) -> Place:
        events = self.session.passes
        known = {change.event for change in self.session.recording.pass_changes}
        for i, event in enumerate(events):
            if event.name == name and (not known or event.index in known):
                return PassAt(i)
        return PageAt("passes")

    def _ladder(self, width: int) -> Iterator[Line]:
        rungs = self.session.answer.ladder
        outputs = ladder.by_output(rungs)
        shown = sorted(outputs, key=lambda key: quality(outputs[key][-1].against_eager))[:SHOWN_OUTPUTS]
        if not shown:
            return
        yield blank()
        yield title("Ladder", "SQNR against eager, in dB")
        for key in (key for key in outputs if key in shown):
            if len(outputs) > 1:
                yield Line(Text(f"  {ladder.output_title(key, rungs)}", "faint"), stop=False)
            yield from self._rungs(outputs[key], width)
        if len(outputs) > len(shown):
            text = f"  {len(outputs) - len(shown)} more outputs are closer to eager"
            yield Line(Text(text, "faint"), stop=False)

    def _rungs(self, rungs: list[Rung], width: int) -> Iterator[Line]:
        before: Rung | None = None
        room = max(min(width - NAME - 34, 50), 6)
        for same in ladder.folded(rungs, everything=False):
            rung = same[-1]
            error = rung.against_eager
            value = None if error is None or error.nonfinite or before is None else error.sqnr_db
            name = rung.name if len(same) == 1 else f"{same[0].name} … {rung.name}"
            change = ladder.change(before, rung, alone=False)  # the error budget says that
            bad = before is not None and "▼" in change.plain
            text = Text.assemble(
                f"  {units.clip_right(name, NAME):<{NAME}} ",
                (f"{units.decibels(error) if before else '':>6}  ", "strong"),
                (f"{'' if value is None else units.bar(value, room):<{room}}  ", "bad" if bad else "bar"),
                change,
            )
            yield Line(text, self._of_rung(rung), rung)
            before = rung

    def _of_rung(self, rung: Rung) -> Place:
        """The pass that is to blame for a rung, else its values."""
        for change in self.session.recording.pass_changes:
            if (change.before, change.method, change.sample) == (rung.name, rung.method, rung.sample):
                events = self.session.passes
                return PassAt(next(i for i, event in enumerate(events) if event.index == change.event))
        return OutputAt(rung.name, rung.method, rung.sample, rung.output)  # type: ignore[arg-type]

    def _budget(self, width: int) -> Iterator[Line]:
        rungs = self.session.answer.ladder
        final = final_rung(rungs)
        if final is None:
            return
        key = final.method, final.sample, final.output
        parts = budget(r for r in rungs if (r.method, r.sample, r.output) == key)
        of = "" if len(ladder.by_output(rungs)) == 1 else f" of {ladder.output_title(key, rungs)}"
        yield blank()
        yield title("Error budget", f"share of the squared error{of}, by who makes it")
        places = {"quantisation": "layers", "pass": "passes", "backend": "layers", "input": "layers"}
        room = max(min(width - NAME - 34, 50), 6)
        for part in parts:
            share = part.share or 0.0
            size = "not measured" if part.relative is None else _relative(part.relative)
            text = Text.assemble(
                f"  {'passes' if part.step == 'pass' else part.step:<{NAME}} ",
                (f"{units.NONE if part.share is None else f'{100 * share:.0f} %':>6}  ", "strong"),
                (f"{units.bar(share * units.BAR_DB, room):<{room}}  ", "bar"),
                (size, "faint"),
            )
            yield Line(text, PageAt(places[part.step]), part)

    def _sources(self, width: int) -> Iterator[Line]:
        groups: dict[str, list[Source]] = {}
        for source in self.session.answer.sources:
            groups.setdefault(source.step, []).append(source)
        for step, found in groups.items():
            first = found[0]
            worst = [
                s
                for s in found
                if (s.method, s.sample, s.output) == (first.method, first.sample, first.output)
            ]
            if step != next(iter(groups)):
                yield blank()
            of = output_of(first, self.session.answer.sources)
            yield title("Sources", f"what makes the error of the {step}{f' in {of}' if of else ''}")
            shown = worst[:SHOWN_SOURCES]
            for source in shown:
                yield from self._source(source, width)
            if len(worst) > SHOWN_SOURCES:
                more = f"  and {len(worst) - SHOWN_SOURCES} more"
                yield Line(Text(more, "faint"), PageAt("layers"))

    def _source(self, source: Source, width: int) -> Iterator[Line]:
        """A source, and below it what does not fit beside it."""
        where = ", ".join(part for part in (source.module, source.source) if part)
        rest = "  ".join(part for part in (source.detail, where) if part)
        text = Text.assemble(
            (f"{units.MADE_HERE} ", "made"),
            (f"{units.effect(source.share):>8}  ", "strong"),
            f"{culprit_name(source)}  ",
        )
        place, below = place_of(self.session, source), text.cell_len + len(rest) > width
        yield Line(text if below else text.append(rest, "faint"), place, source)
        for part in wrapped(rest, width - BELOW) if below else ():
            yield Line(Text(f"{'':{BELOW}}{part}", "faint"), place, source, stop=False)

    def _findings(self, width: int) -> Iterator[Line]:
        findings = self.session.answer.findings
        if not findings:
            return
        counts = Counter(f.severity for f in findings)
        yield title("Findings", ", ".join(f"{n} {s}{'s' * (n > 1)}" for s, n in counts.items()))
        shown = [(i, f) for i, f in enumerate(findings) if f.severity != "note"] or list(enumerate(findings))
        for i, found in shown[:6]:
            sign, style = SIGNS[found.severity]
            text = Text.assemble((f"{sign} {found.rule}  ", style), f"{found.where}: {found.message}")
            yield Line(text, FindingAt(i), found)
        if len(findings) > len(shown[:6]):
            more = len(findings) - len(shown[:6])
            yield Line(Text(f"  {more} more, the notes among them", "faint"), PageAt("findings"))

    def _coverage(self, width: int) -> Iterator[Line]:
        coverage, manifest = self.session.answer.coverage, self.session.recording.manifest
        yield title("Coverage")
        whole = 0 < coverage.compared == coverage.total
        style, sign = ("good", units.SOUND) if whole else ("warn", units.MADE_HERE)
        text = f"{sign} {coverage.compared} of {coverage.total} QNN tensors compared"
        yield Line(Text(text, style), PageAt("layers"), coverage)
        for part, what in ((coverage.constants, "constant"), (coverage.inputs, "input")):
            if part.total:
                text = f"  {part.same} of {part.total} {what}s as the graph has them"
                style = "faint" if part.same == part.total else "warn"
                yield Line(Text(text, style), PageAt("layers", f"given:{what}"), coverage)
        for reason, count in sorted(coverage.reasons.items(), key=lambda item: -item[1]):
            yield Line(Text(f"  {count} {reason}"), PageAt("layers", "compared:no"), coverage)
        for reason, count in sorted(coverage.given.items(), key=lambda item: -item[1]):
            yield Line(Text(f"  {count} {reason}", "faint"), PageAt("layers", "compared:given"), coverage)
        for method in manifest.methods:
            fallbacks = Counter((f.op, f.reason) for f in method.fallbacks)
            for (op, reason), count in fallbacks.items():
                text = f"  {count} {op} on the CPU" + (f": {reason}" if reason else "")
                node = next(f.node for f in method.fallbacks if (f.op, f.reason) == (op, reason))
                yield Line(Text(text, "warn"), NodeAt(node), method.fallbacks)

    def _environment(self, width: int) -> Iterator[Line]:
        manifest = self.session.recording.manifest
        environment = manifest.environment
        yield title("Environment")
        parts = [f"qnndbg {environment.qnndbg}", f"Python {environment.python}"]
        parts += [f"{name} {version}" for name, version in sorted(environment.packages.items())]
        parts += [f"QNN {environment.qnn_build}"] if environment.qnn_build else []
        parts += [environment.host, manifest.target]
        for text in wrapped(" · ".join(parts), width - 2):
            yield Line(Text(f"  {text}", "faint"), data=environment)
        for note in manifest.notes:
            for text in wrapped(f"• {note}", width - 2):
                yield Line(Text(f"  {text}"), data=manifest.notes)
        if manifest.accuracy is not None:
            for runner, correct in manifest.accuracy.correct.items():
                share = units.percent(correct, manifest.accuracy.samples)
                text = f"  accuracy {runner}: {share}, {correct} of {manifest.accuracy.samples}"
                yield Line(Text(text), data=manifest.accuracy)


def _relative(value: float) -> str:
    """A relative error in words of the ladder."""
    if math.isinf(value):
        return "turns non-finite"
    if not value:
        return "= bit-equal"
    decibels = -20 * math.log10(value)
    shown = units.signed(decibels)
    return f"≈ equal to {shown} dB" if decibels >= SAME_NUMBERS_DB else f"{shown} dB alone"


def _hanging(
    sign: str, style: str, text: str, width: int, place: Place | None, data: object, *, strong: bool = False
) -> Iterator[Line]:
    """A text of several lines that hangs beside a sign; the cursor stands on the first of them."""
    for i, part in enumerate(wrapped(text, width - 2)):
        line = Text.assemble((f"{'' if i else sign:<2}", style), (part, "strong" if strong else ""))
        yield Line(line, place, data, stop=not i)
