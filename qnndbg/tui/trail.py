"""The pages one came along, and the main pages as they were left.

A main page is made once for a recording, and found again with its filter, order and cursor. It is in the
stack of screens once at most: going to it by its number moves it to the top, so that Esc leads to the page
before.
Owns the only code that reaches into the stack of Textual, which can move no screen within it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qnndbg.tui.page import Page
from qnndbg.tui.places import PageAt
from qnndbg.tui.state import Session

if TYPE_CHECKING:
    from qnndbg.tui.app import QnndbgApp


class Trail:
    """Where one has been.

    Args:
        app: whose screens they are.
    """

    def __init__(self, app: QnndbgApp) -> None:
        self.app = app
        self.kept: dict[str, Page] = {}
        """Main pages by recording and name."""

    def find(self, session: Session, place: PageAt) -> Page | None:
        """A main page as it was left; None if it was not there yet, or is wanted with a filter."""
        return None if place.query else self.kept.get(_key(session, place))

    def to_main(self, session: Session, place: PageAt, page: Page) -> None:
        """Go to a main page, and keep it from now on."""
        key = _key(session, place)
        old = self.kept.get(key)
        if old is not page:
            if old is not None:
                self._drop(key)
            self.app.install_screen(page, key)
            self.kept[key] = page
        self._take_out(page)
        self.app.push_screen(page)

    def back(self, home: Page | None) -> bool:
        """To the page before, at last to the first page; whether there was one."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()
        elif home is not None and self.app.screen is not home:
            self.app.switch_screen(home)
        else:
            return False
        return True

    def path(self, home: Page | None) -> list[Page]:
        """The first page, the main page that was opened last, and what was opened from there."""
        pages = [page for page in self.app.screen_stack if isinstance(page, Page)]
        mains = [i for i, page in enumerate(pages) if page in self.kept.values()]
        path = pages[mains[-1] if mains else 0 :]
        return path if home is None or home in path else [home, *path]

    def forget(self) -> None:
        """Leave all pages, and keep none."""
        while len(self.app.screen_stack) > 1:
            self.app.pop_screen()
        for key in [*self.kept]:
            self._drop(key)

    def _drop(self, key: str) -> None:
        page = self.kept.pop(key)
        self._take_out(page)
        self.app.uninstall_screen(page)
        page.remove()

    def _take_out(self, page: Page) -> None:
        """Out of the stack, if it is there below the top."""
        stack = self.app._screen_stack
        if page in stack:
            stack.remove(page)
            page._pop_result_callback()


def _key(session: Session, place: PageAt) -> str:
    return place.name if place.name == "diff" else f"{place.name} {id(session)}"
