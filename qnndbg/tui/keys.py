"""The line of keys at the bottom, and the help: both are made from the bindings, so neither can be wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Protocol, runtime_checkable

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

GLYPHS = {
    "escape": "Esc", "enter": "Enter", "slash": "/", "question_mark": "?", "up": "↑", "down": "↓",
    "left": "←", "right": "→", "right_square_bracket": "]", "left_square_bracket": "[", "comma": ",",
    "full_stop": ".", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "tab": "Tab",
    "less_than_sign": "<", "greater_than_sign": ">", "backspace": "⌫", "space": "Space",
}  # fmt: skip


def key_name(key: str) -> str:
    """How a key is written."""
    return GLYPHS.get(key, key.replace("ctrl+", "^").replace("shift+", "⇧"))


TEXTUALS = frozenset({"app.focus_next", "app.focus_previous", "screen.copy_text", "app.help_quit"})
"""Actions that Textual binds on every screen, and that say nothing here."""


@runtime_checkable
class Choosy(Protocol):
    """A screen or an app some of whose keys are of no use at times."""

    def offers(self, action: str) -> bool:
        """Whether a key is worth naming now; one that is not says why when it is pressed.

        Args:
            action: as in its binding.
        """


def shown(screen: Screen[object], *, screen_first: bool = False) -> Iterator[tuple[list[str], Binding]]:
    """The bindings that are of use now, each with all of its keys.

    Args:
        screen: whose bindings.
        screen_first: those of the screen come before those of the widget that has the focus.
    """
    found: dict[tuple[str, str], tuple[list[str], Binding, int]] = {}
    ranks = {screen: -1 if screen_first else 1, screen.app: 2}
    for key, (node, binding, enabled, _tip) in screen.active_bindings.items():
        if not enabled or binding.system or not binding.description or binding.action in TEXTUALS:
            continue
        if isinstance(node, Choosy) and not node.offers(binding.action):
            continue
        entry = (binding.action, binding.description)
        found.setdefault(entry, ([], binding, ranks.get(node, 0)))[0].append(key)
    for keys, binding, _rank in sorted(found.values(), key=lambda item: item[2]):
        yield keys, binding


class KeyLine(Static):
    """The keys that work here, as many as there is room for; each can be clicked."""

    DEFAULT_CSS = "KeyLine { height: 1; background: $panel; color: $text; link-style: none; }"

    def on_mount(self) -> None:
        """Follow what has the focus."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.fill())
        self.call_after_refresh(self.fill)

    def on_resize(self) -> None:
        """Use the room that there is."""
        self.fill()

    def fill(self) -> None:
        """Write the keys."""
        if not self.is_attached or self.app.screen is not self.screen:
            return
        line, last = Text(end="", no_wrap=True), Text(" ? Help", end="")
        if isinstance(self.screen.focused, Input):
            self.update(
                Text.assemble((" Enter", "bold"), " Done ", (" Esc", "bold"), " Drop it"), layout=False
            )
            return
        for keys, binding in shown(self.screen):
            if not binding.show or binding.key == "question_mark":
                continue
            item = Text.assemble((f" {key_name(keys[0])}", "bold"), f" {binding.description} ", end="")
            item.stylize(Style.from_meta({"@click": f"screen.run_key('{keys[0]}')"}))
            if line.cell_len + item.cell_len + last.cell_len > self.size.width:
                continue
            line.append_text(item)
        last.stylize(Style.from_meta({"@click": "app.help"}))
        self.update(line.append_text(last), layout=False)


class Help(ModalScreen[None]):
    """All keys that work on a screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "dismiss", "Close"),
        Binding("down,j", "scroll(1)", "Down", show=False),
        Binding("up,k", "scroll(-1)", "Up", show=False),
    ]
    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > VerticalScroll { width: 72; max-width: 95%; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1; }
    """

    def __init__(self, of: Screen[object], about: str) -> None:
        super().__init__()
        self.rows = [(keys, binding.description) for keys, binding in shown(of, screen_first=True)]
        self.about = re.sub(r"(?<!\n)\n(?!\n)", " ", about)  # paragraphs, not lines of the source

    def compose(self) -> ComposeResult:
        """Lay it out."""
        with VerticalScroll() as scroll:
            scroll.border_title = "Keys"
            scroll.border_subtitle = "Esc closes"
            yield Static(self._text(), markup=False)

    def _text(self) -> Text:
        text = Text(f"{self.about}\n\n" if self.about else "")
        for keys, description in self.rows:
            names = " ".join(key_name(key) for key in keys[:4])
            text.append(f"{names:>14}  ", "bold")
            text.append(f"{description}\n")
        return text

    def action_scroll(self, by: int) -> None:
        """Move the text."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)
