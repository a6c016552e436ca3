"""HTML elements from Python, escaped unless they are markup already."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from html import escape
from typing import NamedTuple


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Markup | None | Iterable["Content"]


def el(tag: str, *content: Content, **attributes: str | int | float | bool | None) -> Markup:
    """An element.

    Args:
        tag: its name.
        content: text, which is escaped; markup, which is not; nothing, or several of these.
        attributes: ``class_`` is class, and ``data_x`` is data-x; one that is None or False is left out.
    """
    written = "".join(
        [
            _name(key) if value is True else f'{_name(key)}="{escape(str(value))}"'
            for key, value in attributes.items()
            if value is not None and value is not False
        ]
    )
    if tag in VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{_text(content)}</{tag}>")


VOID = frozenset({"br", "hr", "input", "meta", "link"})


@functools.cache
def _name(key: str) -> str:
    return " " + key.rstrip("_").replace("_", "-")


def _text(content: Content) -> str:
    """Anything that an element may hold, as HTML."""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return escape(content, quote=False)
    return "".join([_text(item) for item in content]) if content is not None else ""


class Section(NamedTuple):
    """A part of a page."""

    name: str
    """Its id."""
    title: str
    markup: Markup


def section(name: str, title: str, *content: Content, note: str = "") -> Section:
    """A part of a page with a heading that can be linked to.

    Args:
        name: its id.
        title: its heading, and what the bar at the top calls it.
        content: below the heading.
        note: small, beside the heading.
    """
    heading = el("h2", title, el("small", note) if note else None, id=f"{name}-title")
    markup = el("section", heading, *content, id=name, aria_labelledby=f"{name}-title")
    return Section(name, title, markup)


def card(*content: Content, kind: str = "") -> Markup:
    """A framed part of a section."""
    return el("div", *content, class_=f"card {kind}".strip())


def table(
    header: Iterable[str], rows: Iterable[Iterable[Content]], *, caption: str, numeric: Iterable[int] = ()
) -> Markup:
    """A table that scrolls sideways where it is too wide.

    Args:
        header: titles of the columns.
        rows: cells.
        caption: what it is, for those who hear it.
        numeric: columns of numbers, which stand at the right.
    """
    right = frozenset(numeric)
    heads = [
        el("th", title, scope="col", class_="num" if i in right else None) for i, title in enumerate(header)
    ]
    body = [
        el("tr", [el("td", cell, class_="num" if i in right else None) for i, cell in enumerate(row)])
        for row in rows
    ]
    return el(
        "div",
        el("table", el("caption", caption), el("thead", el("tr", heads)), el("tbody", body)),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )
