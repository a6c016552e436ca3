"""Names of styles, and the colours that the theme gives them. A sign goes with each, so either suffices."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rich.console import Console
from rich.style import Style
from rich.theme import Theme
from textual.app import App
from textual.color import Color

TEMPLATES = {
    "made": "bold {error}",
    "bad": "bold {error}",
    "warn": "{warning}",
    "good": "{success}",
    "faint": "{faint}",
    "title": "bold {primary}",
    "link": "{accent}",
    "bar": "{primary}",
    "added": "{success}",
    "gone": "{error}",
    "changed": "{warning}",
    "heading": "bold {primary}",
    "found": "reverse",
    "cursor": "bold on {cursor}",
    "cursor.away": "on {away}",
    "strong": "bold",
}


class Styles:
    """The styles of one theme.

    Args:
        colours: hexadecimal colours by the theme's names.
    """

    def __init__(self, colours: dict[str, str]) -> None:
        self._styles = {name: Style.parse(form.format(**colours)) for name, form in TEMPLATES.items()}
        self.console = Console(
            force_terminal=True, color_system="truecolor", width=1000, theme=Theme(self._styles)
        )

    def get(self, name: str) -> Style:
        """The style of a name."""
        return self._styles[name]


NEEDED = ("error", "warning", "success", "primary", "accent")


def styles_of(app: App[Any]) -> Styles:
    """The styles of the theme that an app has now."""
    variables = app.theme_variables
    inks = tuple((name, variables[name], variables.get(f"text-{name}", "")) for name in NEEDED)
    return _of_theme(variables["background"], variables["foreground"], inks)


@lru_cache(maxsize=8)
def _of_theme(ground: str, ink: str, inks: tuple[tuple[str, str, str], ...]) -> Styles:
    found = {name: text if text.startswith("#") else plain for name, plain, text in inks}
    back = Color.parse(ground)
    first = Color.parse(found["primary"])
    mixed = {
        "faint": back.blend(Color.parse(ink), 0.58).hex6,
        "cursor": back.blend(first, 0.4).hex6,
        "away": back.blend(first, 0.18).hex6,
    }
    return Styles({**mixed, **{name: Color.parse(value).hex6 for name, value in found.items()}})
