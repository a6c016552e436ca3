"""The findings: each with its evidence and what helps, and the way to where it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text
from textual.widget import Widget

from qnndbg.model.result import Finding
from qnndbg.tui.page import Page, blank
from qnndbg.tui.places import NodeAt, PageAt, PassAt, Place
from qnndbg.tui.sheet import Content, Line, Lines, Sheet
from qnndbg.tui.state import Session
from qnndbg.tui.words import SIGNS, wrapped


class Findings(Page):
    """The rules that hold for this recording, by severity. Enter goes to where one holds."""

    label = "Findings"

    def __init__(self, session: Session, position: int = 0) -> None:
        super().__init__(session)
        self.position = position

    def body(self) -> Sequence[Widget]:
        """One sheet."""
        return (Sheet(self._findings, id="findings"),)

    def on_mount(self) -> None:
        """Stand on the finding that was asked for."""
        self.call_after_refresh(self._stand)

    def _stand(self) -> None:
        sheet = self.query_one("#findings", Sheet)
        findings = self.session.answer.findings
        for i in range(len(sheet.content)):
            line = sheet.content.line(i)
            if self.position < len(findings) and line.stop and line.data is findings[self.position]:
                sheet.cursor = i
                return

    def _findings(self, width: int) -> Content:
        findings = self.session.answer.findings
        if not findings:
            return Lines([Line(Text("  no rule found anything", "faint"))])
        lines = [line for found in findings for line in self._one(found, width)]
        return Lines(lines)

    def _one(self, found: Finding, width: int) -> Iterator[Line]:
        sign, style = SIGNS[found.severity]
        place = self._place(found)
        first, *rest = wrapped(f"{found.where}: {found.message}", width - 10)
        yield Line(Text.assemble((f"{sign} {found.rule:<7} ", style), (first, "strong")), place, found)
        for text in rest:
            yield Line(Text(f"{'':10}{text}", "strong"), place, found, stop=False)
        where = " · ".join(part for part in (found.module, found.source) if part)
        for label, text in (("", found.evidence), ("", where), ("help: ", found.help)):
            for part in wrapped(label + text, width - 10) if text else []:
                yield Line(Text(f"{'':10}{part}", "" if label else "faint"), place, found, stop=False)
        yield blank()

    def _place(self, found: Finding) -> Place:
        """The layer, pass or node that it is about."""
        session = self.session
        if found.where in session.named:
            return session.named[found.where]
        for i, event in enumerate(session.passes):
            if event.name and event.name == found.where:
                return PassAt(i)
        return NodeAt(found.where)

    def here(self) -> Place:
        """The findings."""
        return PageAt("findings")

    def status(self) -> Text:
        """How many there are."""
        return Text(f" {len(self.session.answer.findings)} findings")

    def table(self) -> tuple[str, list[list[object]]]:
        """All findings."""
        names = Finding.__struct_fields__
        return "findings", [
            list(names),
            *([getattr(f, n) for n in names] for f in self.session.answer.findings),
        ]
