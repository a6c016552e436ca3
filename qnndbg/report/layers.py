"""The layers as a table that tells errors made from errors inherited, at any width.

Accumulated errors are dim and local ones bright; a sign marks where an error is made and where one is only
passed on. Numbers stay at every width; of the words, columns drop from the right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from rich.table import Table
from rich.text import Text

from qnndbg.analyze.causes import MINOR_SHARE
from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.verdict import sources, victims
from qnndbg.model.result import Coverage, ErrorMetrics, LayerResult
from qnndbg.report import units

Order = Literal["effect", "local", "accumulated", "order"]
ORDERS: dict[Order, str] = {
    "effect": "by effect on the output",
    "local": "by local error over its floor",
    "accumulated": "by accumulated error over its floor",
    "order": "in execution order",
}
"""The orders in words."""
GAP = 2
SIGN = 2
"""Cells for the sign in front of a row."""


class _Words(NamedTuple):
    """A column of words."""

    title: str
    text: Callable[[LayerResult], str]
    clip: Callable[[str, int], str]
    narrow: int
    """The width that it is cut to before a column is dropped."""


WORDS = (
    _Words("tensor", lambda layer: layer.tensor, units.clip_tensor, 21),
    _Words("op", lambda layer: short_op(layer.op) or layer.given, units.clip_right, 10),
    _Words("module", lambda layer: layer.module, units.clip_left, 11),
    _Words("dtype", lambda layer: units.dtype(layer.dtype), units.clip_right, 8),
    _Words("from", lambda layer: layer.created_by or layer.source, units.clip_left, 12),
)


def ordered(layers: tuple[LayerResult, ...], by: Order) -> tuple[LayerResult, ...]:
    """The layers by falling effect on the output, by error over noise floor, or in execution order."""
    if by == "order":
        return layers
    return tuple(sorted(layers, key=lambda layer: _rank(layer, by), reverse=True))


def _rank(layer: LayerResult, by: Order) -> tuple[float, float]:
    made = -1.0 if layer.excess is None else layer.excess
    if by == "accumulated":
        return -1.0 if layer.inherited is None else layer.inherited, made
    return abs(layer.effect or 0.0) if by == "effect" else made, made


def told(layers: tuple[LayerResult, ...], everyone: tuple[LayerResult, ...]) -> tuple[LayerResult, ...]:
    """The compared layers without the inputs and constants that do no harm, of which there may be hundreds.

    Args:
        layers: some, in any order.
        everyone: all layers of the recording.
    """
    made = frozenset(sources(everyone))
    return tuple(
        layer
        for layer in layers
        if (layer.accumulated or layer.local)
        and (not layer.given or layer in made or abs(layer.effect or 0.0) >= MINOR_SHARE)
    )


def held_as_given(coverage: Coverage) -> tuple[str, ...]:
    """How many constants and inputs are what the graph has, a sentence each."""
    parts = ((coverage.constants, "constants"), (coverage.inputs, "inputs"))
    seen = ((part, what) for part, what in parts if part.total)
    return tuple(f"{part.same} of {part.total} {what} as the graph has them" for part, what in seen)


def layer_table(layers: tuple[LayerResult, ...], everyone: tuple[LayerResult, ...], width: int) -> Table:
    """A table of compared layers.

    Args:
        layers: the rows, in their order.
        everyone: all layers of the recording, against which one stands out.
        width: cells that the table may take.
    """
    unit = lsb_or_ulp(everyone)
    made, inherited = frozenset(sources(everyone)), frozenset(victims(everyone))
    columns = [
        _numbers("accumulated", [layer.accumulated for layer in layers], unit),
        _numbers("local", [layer.local for layer in layers], unit),
        _column("\n×floor", [units.times(layer.excess) for layer in layers]),
    ]
    if any(layer.effect is not None for layer in everyone):
        columns.append(_column("\neffect", [units.effect(layer.effect) for layer in layers]))
    room = width - SIGN - sum(GAP + _width(column) for column in columns)
    words = _fit(_columns(everyone), layers, room)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for column, size in words:
        indent = 0 if table.columns else SIGN
        table.add_column(f"\n{'':{indent}}{column.title}", width=indent + size, no_wrap=True)
    for numbers in columns:
        table.add_column(numbers[0], justify="right", no_wrap=True)
    for layer, *numbers in zip(layers, *(column[1:] for column in columns), strict=True):
        sign = units.MADE_HERE if layer in made else units.INHERITED if layer in inherited else " "
        texts = [column.clip(column.text(layer), size) for column, size in words]
        table.add_row(*_styled(sign, units.FUSED if layer.fused else " ", texts, numbers))
    return table


def lsb_or_ulp(layers: tuple[LayerResult, ...]) -> Literal["LSB", "ULP"]:
    """Steps of the encodings where there are any, else those of fp16."""
    errors = (layer.accumulated for layer in layers)
    return "LSB" if any(error and error.max_lsb is not None for error in errors) else "ULP"


def _numbers(title: str, errors: list[ErrorMetrics | None], unit: Literal["LSB", "ULP"]) -> list[str]:
    """A column of two numbers each, one below the other; the first cell is its title."""
    pairs = [(unit, "dB"), *((units.steps(error, unit), units.decibels(error)) for error in errors)]
    left, right = (max(len(pair[i]) for pair in pairs) for i in (0, 1))
    cells = [f"{steps:>{left}}  {decibels:>{right}}" for steps, decibels in pairs]
    return [f"{title}\n{cells[0]}", *cells[1:]]


def _column(title: str, cells: list[str]) -> list[str]:
    return [title, *cells]


def _width(column: list[str]) -> int:
    return max(len(line) for cell in column for line in cell.split("\n"))


def _columns(everyone: tuple[LayerResult, ...]) -> list[_Words]:
    """The columns that say something; the place of an op does where there is more than one."""
    tensor, *others = WORDS
    places = (
        _Words("method", lambda layer: layer.method, units.clip_right, 7),
        _Words("part", lambda layer: str(layer.partition), units.clip_left, 4),
    )
    told = [column for column in places if len({column.text(layer) for layer in everyone}) > 1]
    return [tensor, *told, *(column for column in others if any(column.text(layer) for layer in everyone))]


def _fit(columns: list[_Words], layers: tuple[LayerResult, ...], room: int) -> list[tuple[_Words, int]]:
    """The columns of words that fit, and their widths.

    All are cut first, then dropped from the right; what room is left goes to those that are cut.
    """
    natural = [max([len(column.title), *(len(column.text(layer)) for layer in layers)]) for column in columns]
    sizes = [min(size, column.narrow) for column, size in zip(columns, natural, strict=True)]
    while len(sizes) > 1 and sum(sizes) + GAP * (len(sizes) - 1) > room:
        sizes.pop()
    spare = room - sum(sizes) - GAP * (len(sizes) - 1)
    while spare > 0 and (short := [i for i, size in enumerate(sizes) if size < natural[i]]):
        for i in short[:spare]:
            sizes[i] += 1
        spare -= len(short)
    sizes[0] = max(sizes[0] + min(spare, 0), 8)
    return list(zip(columns, sizes, strict=False))


def legend(layers: tuple[LayerResult, ...]) -> tuple[str, ...]:
    """What the signs mean, those that there are."""
    signs = (f"{units.MADE_HERE} made here", f"{units.INHERITED} inherited", f"{units.EQUAL} bit-equal")
    fused = any(layer.fused for layer in layers)
    return (*signs, *([f"{units.FUSED} fused"] if fused else []))


def _styled(sign: str, fused: str, words: list[str], numbers: list[str]) -> list[Text]:
    """Bright where the error is made, dim where it is inherited."""
    made = sign == units.MADE_HERE
    return [
        Text.assemble((f"{sign}{fused}", "bold red" if made else "dim"), (words[0], "bold" if made else "")),
        *(Text(word, "dim") for word in words[1:]),
        Text(numbers[0], "dim"),
        *(Text(number, "bold red" if made else "") for number in numbers[1:]),
    ]
