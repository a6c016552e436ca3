"""The report as one HTML file: no network, no clock, light and dark, readable at 10,000 layers.

Whatever comes from the recording is escaped, and a content security policy allows no script but the page's
own and no request at all, so that the report of a stranger's recording is safe to open.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib import resources

from qnndbg.report.html import closeups, graphs, ladder, layers, sections
from qnndbg.report.html.markup import Content, Markup, Section, el
from qnndbg.report.html.page import Page
from qnndbg.report.layers import Order


def html_report(page: Page, *, sort: Order = "local") -> str:
    """What a recording says, as an HTML document.

    Args:
        page: what :func:`qnndbg.report.html.page.page_from_recording` reads.
        sort: the order in which the layers are shown first.
    """
    parts = [
        sections.verdict(page),
        ladder.section(page.comparison.ladder),
        sections.sources(page.comparison),
        layers.section(page.comparison.layers, sort),
        graphs.section(page.drawings),
        closeups.section(page.closeups, page.comparison.layers),
        sections.findings(page.comparison.findings),
        sections.coverage(page.manifest, page.comparison.coverage),
        sections.passes(page.passes),
        sections.environment(page),
    ]
    manifest = page.manifest
    title = f"{manifest.target} · {manifest.precision} · {manifest.soc}"
    return document(title, parts, subtitle=sections.headline(page))


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""What a stranger's names may hold and a page has no use for."""


def document(
    title: str, parts: Sequence[Section | None], *, subtitle: Content = None, scripts: Sequence[str] = ()
) -> str:
    """A whole page around sections; None stands for one that has nothing to say.

    Args:
        title: of the page.
        parts: sections in their order; a bar at the top links to them.
        subtitle: beside the title.
        scripts: files beside this one that the page needs besides its own.
    """
    script = "".join(map(_file, ("page.js", *scripts)))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} – qnndbg"),
        el("style", Markup(_file("page.css"))),
    )
    shown = [part for part in parts if part is not None]
    body = el(
        "body",
        el("a", "Skip to the report", href="#report", class_="skip"),
        _bar(title, subtitle, shown),
        el("main", [part.markup for part in shown], id="report"),
        el("footer", "Written by qnndbg. This file is complete: it loads nothing."),
        el("script", Markup(script)),
    )
    page = f"<!doctype html>\n{el('html', head, body, lang='en')}\n"
    return CONTROLS.sub("", page)


def _bar(title: str, subtitle: Content, parts: Sequence[Section]) -> Markup:
    """The bar at the top: what this is, where to go, and light or dark."""
    links = [el("a", part.title, href=f"#{part.name}") for part in parts]
    toggle = el("button", "Dark", type="button", id="theme", aria_label="Switch between light and dark")
    brand = el("a", el("b", "qnn"), "dbg", href="#report", class_="brand", aria_label="qnndbg: to the top")
    return el(
        "header",
        el("div", brand, el("h1", title), el("span", subtitle, class_="subtitle"), toggle, class_="row"),
        el("nav", links, aria_label="Sections"),
    )


def _file(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
