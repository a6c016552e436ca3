"""A recorded tensor as a grid: a slice of it, raw or as real numbers, of each side and of the difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from qnndbg.analyze.elements import Pair, codes, look, real
from qnndbg.analyze.normalize import Array, same_rank
from qnndbg.model.graph import QuantParams
from qnndbg.report import units
from qnndbg.tui.page import Page
from qnndbg.tui.places import TensorAt
from qnndbg.tui.plots import real_text
from qnndbg.tui.sheet import Content, Line, Sheet, Whole
from qnndbg.tui.state import Session
from qnndbg.tui.walk import shape_text

CELL = 11
LABEL = 7
CODE_DIGITS = 8
"""Whole numbers of fewer digits are shown whole."""


class Grid(Whole):
    """The rows of one slice, read as they are drawn.

    Args:
        page: which slice of which side.
        width: cells of a line.
    """

    def __init__(self, page: TensorPage, width: int) -> None:
        self.page, self.width = page, width
        self.count = max((width - LABEL) // CELL, 1)

    def __len__(self) -> int:
        return self.page.shape[-2] if len(self.page.shape) > 1 else 1

    def heading(self) -> Text:
        """The numbers of the columns."""
        first = self.page.column
        last = min(first + self.count, self.page.shape[-1] if self.page.shape else 1)
        return Text(" " * LABEL + "".join(f"{i:>{CELL}}" for i in range(first, last)))

    def line(self, index: int) -> Line:
        """A row."""
        values = self.page.row(index, self.count)
        text = Text(f"{index:>{LABEL - 2}}  ", "faint", end="")
        if values is None:
            return Line(text.append("no numbers of this dtype can be shown"))
        at = self.page.element
        for i, (value, bad) in enumerate(zip(*values, strict=True), self.page.column):
            here = at is not None and (*self.page.index, index, i)[-len(at) :] == at
            text.append(f"{_cell(value):>{CELL}}", "found" if here else "made" if bad else "")
        return Line(text, data={"index": [*self.page.index, index], "values": [v.item() for v in values[0]]})


def _cell(value: np.generic) -> str:
    item = value.item()
    if isinstance(item, float) and item.is_integer() and abs(item) < 10**CODE_DIGITS:
        return str(int(item)).replace("-", "−")
    return str(item) if isinstance(item, (bool, int)) else real_text(float(f"{item:.4g}"))


class TensorPage(Page):
    """Elements of a recorded tensor. Elements that differ from the first side are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "side(1)", "Side"),
        Binding("V", "side(-1)", "Side before", show=False),
        Binding("r", "raw", "Raw/real"),
        Binding("left,h", "shift(-1)", "Columns", show=False),
        Binding("right,l", "shift(1)", "Columns →"),
        Binding("right_square_bracket", "slice(1)", "Next slice"),
        Binding("left_square_bracket", "slice(-1)", "Previous slice", show=False),
        Binding("w", "worst", "Worst"),
    ]

    def __init__(self, session: Session, place: TensorAt) -> None:
        super().__init__(session)
        self.place = place
        tensors = [session.recording.tensor(ref) for _, ref in place.sides]
        self.sides: dict[str, Array] = {}
        for (name, _), tensor in zip(place.sides, tensors, strict=True):
            self.sides[name] = same_rank(tensors[0], tensor)
        self.dtypes = {name: ref.dtype for name, ref in place.sides}
        layer = session.layers.get(place.layer) if place.layer is not None else None
        self.encoding: QuantParams | None = layer.encoding if layer is not None else None
        first = next(iter(self.sides))
        alike = [name for name, t in self.sides.items() if t.shape == self.sides[first].shape]
        self.views = [*self.sides, *(f"{name} − {first}" for name in alike if name != first)]
        self.view = self.views[-1] if len(alike) < 2 else self.views[len(self.sides)]
        self.is_raw = False
        self.column = 0
        self.flat = 0
        self.element = place.element
        """The element that is marked."""

    def on_mount(self) -> None:
        """Begin at an element, if one is given."""
        if self.element is not None:
            self.call_after_refresh(self.show_element, self.element)

    @property
    def label(self) -> str:  # type: ignore[override]
        """The tensor."""
        return f"Tensor {units.clip_tensor(self.place.title, 30)}"

    def body(self) -> Sequence[Widget]:
        """One grid."""
        return (Sheet(self._grid, id="tensor"),)

    def _grid(self, width: int) -> Content:
        return Grid(self, width)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the side that is shown."""
        return self.sides[self._names()[0]].shape

    @property
    def outer(self) -> tuple[int, ...]:
        """The axes that are not seen, of which one slice is shown."""
        return self.shape[:-2]

    @property
    def index(self) -> tuple[int, ...]:
        """Where in these axes the slice is."""
        return tuple(int(i) for i in np.unravel_index(self.flat, self.outer)) if self.outer else ()

    def _names(self) -> tuple[str, ...]:
        return tuple(self.view.split(" − "))

    def row(self, index: int, count: int) -> tuple[Array, Array] | None:
        """Values of a row of the slice, and which of them differ from the first side."""
        columns = slice(self.column, self.column + count)
        where = (*(slice(i, i + 1) for i in self.index), slice(index, index + 1), columns)
        where = where[-len(self.shape) :] if self.shape else ()
        parts = [self._part(name, where) for name in self._names()]
        first = next(iter(self.sides))
        base = parts[-1] if len(parts) > 1 else self._part(first, where) if first != self.view else None
        if any(part is None for part in parts):
            return None
        value = parts[0]
        assert value is not None
        if base is not None and base.shape == value.shape:
            with np.errstate(invalid="ignore"):
                differs = np.logical_and(value != base, ~np.logical_and(_nan(value), _nan(base)))
        else:
            differs = np.zeros(value.shape, bool)
        if len(parts) > 1 and base is not None:
            value = value.astype(np.float64) - base.astype(np.float64)
        return value.reshape(-1), differs.reshape(-1)

    def _part(self, name: str, where: tuple[slice, ...]) -> Array | None:
        array = self.sides[name]
        if array.ndim != len(where):
            return None
        if self.as_codes and self.encoding is not None:
            return codes(array, self.encoding, where, self.dtypes[name])
        return real(array, None if self.is_raw else self.encoding, where, self.dtypes[name])

    @property
    def as_codes(self) -> bool:
        """Whether real numbers are shown as the integers that the other side has of them."""
        integers = any(side.dtype.kind in "iu" for side in self.sides.values())
        return self.is_raw and integers and self.encoding is not None

    def status(self) -> Text:
        """Which side and slice, and what its numbers are."""
        name = self._names()[0]
        outer = ", ".join(map(str, self.index))
        where = f" slice [{outer}{', ' if outer else ''}:, :] of" if self.outer else ""
        quantised = ", ".join(n for n in self._names() if self.sides[n].dtype.kind == "f")
        kind = "real" if not self.is_raw else "raw codes" if self.as_codes else "raw"
        if self.as_codes and quantised:
            kind = f"raw codes, {quantised} in the same encoding"
        text = f" {self.view} ({kind}) ·{where} {self.dtypes[name]} {shape_text(self.shape)}"
        others = " ".join(f"[{v}]" if v == self.view else v for v in self.views)
        return Text.assemble(text, (f" · sides: {others}", "faint"))

    def action_side(self, by: int) -> None:
        """Show the next side, or the next difference."""
        self.view = self.views[(self.views.index(self.view) + by) % len(self.views)]
        self.flat = min(self.flat, max(math.prod(self.outer) - 1, 0))
        self._again()

    def action_raw(self) -> None:
        """Show integers as they are stored, or what they mean."""
        if self.encoding is None:
            self.shell.say("this tensor has no encoding; its numbers stand for themselves")
        self.is_raw = not self.is_raw
        self._again()

    def action_shift(self, by: int) -> None:
        """Show the columns beside."""
        count = max((self.query_one("#tensor", Sheet).columns - LABEL) // CELL, 1)
        columns = self.shape[-1] if self.shape else 1
        to = self.column + by * count
        if 0 <= to < columns:
            self.column = to
            self._again()
        else:
            self.shell.say(f"there are no more columns; there are {columns} in all")

    def action_slice(self, by: int) -> None:
        """Show the next slice of the axes that are not seen."""
        total = math.prod(self.outer)
        if total > 1:
            self.flat = (self.flat + by) % total
            self._again()
        else:
            self.shell.say("this is the only slice")

    def action_worst(self) -> None:
        """Go to the element that is furthest off."""
        names = list(self.sides)
        if len(names) < 2:
            self.shell.say("there is no other side to hold it against")
            return
        target = self._names()[0] if self._names()[0] != names[0] else names[1]
        found = look(Pair(self.sides[names[0]], self.sides[target], self.encoding), worst=1)
        if found is None or not found.worst:
            self.shell.say("no element differs")
            return
        self.show_element(found.worst[0].index)
        self.shell.say(f"the largest error is at [{', '.join(map(str, found.worst[0].index))}]")

    def show_element(self, index: tuple[int, ...]) -> None:
        """Show the slice in which an element is, marked, with the cursor on its row."""
        self.element = index
        count = max((self.query_one("#tensor", Sheet).columns - LABEL) // CELL, 1)
        if index:
            self.column = index[-1] // count * count
        self.flat = int(np.ravel_multi_index(index[:-2], self.outer)) if self.outer else 0
        self.query_one("#tensor", Sheet).rebuild(index[-2] if len(index) > 1 else 0)
        self.show_status()

    def _again(self) -> None:
        self.query_one("#tensor", Sheet).rebuild()
        self.show_status()

    def table(self) -> tuple[str, list[list[object]]]:
        """The slice that is shown, all columns of it."""
        rows = self.shape[-2] if len(self.shape) > 1 else 1
        columns = self.shape[-1] if self.shape else 1
        kept, self.column = self.column, 0
        found = [self.row(i, columns) for i in range(rows)]
        self.column = kept
        cells: list[list[object]] = [[v.item() for v in row[0]] for row in found if row is not None]
        return "tensor", [list(range(columns)), *cells]


def _nan(array: Array) -> Array:
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
