"""The columns of the table of layers: what each shows, sorts by and exports, and which ones fit a width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from qnndbg.analyze.phrases import short_op
from qnndbg.model.result import LayerResult
from qnndbg.report import units
from qnndbg.tui.query import steps_of
from qnndbg.tui.state import Session, key_of
from qnndbg.tui.walk import encoding_text, torch_dtype

GAP = 2
SIGN = 2
READABLE = 30
"""Cells for names, before there are any for the columns that tell least."""
SPARE = 10
"""``keep`` from which on a column tells least."""
MEASURED = 500
"""Rows by which the widths of columns are chosen."""
Cell = Callable[[LayerResult], str]
Rank = Callable[[LayerResult], float | str | None]


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    cell: Cell
    rank: Rank
    """What it sorts by; None comes last."""
    narrow: int
    """Cells that it needs."""
    wide: int
    """Cells that it takes where there is room."""
    keep: int
    """The higher, the sooner it is dropped."""
    right: bool = False
    clip: Callable[[str, int], str] = units.clip_right
    falling: bool = False
    """It is sorted by falling values first."""
    role: str = ""
    """What it is about: ``made`` is bright on a source, ``inherited`` always dim."""
    instead: tuple[str, Cell] | None = None
    """A column, and what an empty cell shows where there is no room for that one."""


def columns(session: Session) -> tuple[Column, ...]:
    """All columns of a recording, in their order on the screen; what is empty everywhere is left out."""
    found = (*_names(session), *_errors(session), *_rest(session))
    rows = session.answer.layers
    told = {
        "module": any(r.module for r in rows),
        "method": len({r.method for r in rows}) > 1,
        "part": len({r.partition for r in rows}) > 1,
        "encoding": any(r.encoding for r in rows),
        "effect": any(r.effect is not None for r in rows),
        "sat%": any(r.encoding for r in rows),
        "source": any(r.source or r.created_by for r in rows),
    }
    return tuple(column for column in found if told.get(column.name, True))


def widths(session: Session) -> dict[str, int]:
    """Cells of the longest text of each column, by its name; kept, as this is slow."""
    if not session.widths:
        rows = session.answer.layers
        rows = rows[:: max(len(rows) // MEASURED, 1)]
        found = {c.name: max([len(c.cell(r)) for r in rows] or [0]) for c in columns(session)}
        session.widths = {**found, "sat%": 5}
    return session.widths


def _names(session: Session) -> tuple[Column, ...]:
    def number(layer: LayerResult) -> int:
        return session.numbers[key_of(layer)]

    def scale(layer: LayerResult) -> float | None:
        return layer.encoding.scales[0] if layer.encoding else None

    def op(layer: LayerResult) -> str:
        return short_op(layer.op) or layer.given

    return (
        Column("#", lambda r: str(number(r)), number, 4, 5, 8, right=True),
        Column("tensor", lambda r: r.tensor, lambda r: r.tensor, 16, 44, 0, clip=units.clip_tensor),
        Column("op", op, op, 9, 20, 2),
        Column("module", lambda r: r.module, lambda r: r.module, 9, 34, 6, clip=units.clip_left),
        Column("method", lambda r: r.method, lambda r: r.method, 7, 16, 7),
        Column("part", lambda r: str(r.partition), lambda r: r.partition, 4, 4, 7, right=True),
        Column("dtype", dtype_chain, dtype_chain, 7, 9, 7),
        Column("encoding", lambda r: encoding_text(r.encoding), scale, 16, 20, 10),
    )


def _errors(session: Session) -> tuple[Column, ...]:
    unit = session.unit
    return tuple(
        column
        for title, side, role in (("acc", "accumulated", "inherited"), ("loc", "local", "made"))
        for column in (_steps(title, side, role, unit), _decibels(title, side, role))
    )


def _steps(title: str, side: str, role: str, unit: Literal["LSB", "ULP"]) -> Column:
    return Column(
        name=f"{title} {unit}",
        cell=lambda layer: units.steps(getattr(layer, side), unit),
        rank=lambda layer: steps_of(getattr(layer, side)),
        narrow=7, wide=8, keep=1, right=True, falling=True, role=role,
        instead=(f"{title} dB", lambda layer: _with_unit(units.decibels(getattr(layer, side)))),
    )  # fmt: skip


def _with_unit(decibels: str) -> str:
    return f"{decibels}dB" if decibels[-1].isdigit() else decibels


def drawn(column: Column, layer: LayerResult, shown: frozenset[str]) -> str:
    """A cell beside the columns that are shown."""
    cell = column.cell(layer)
    if cell != units.NONE or column.instead is None or column.instead[0] in shown:
        return cell
    return column.instead[1](layer)


def _decibels(title: str, side: str, role: str) -> Column:
    return Column(
        name=f"{title} dB",
        cell=lambda layer: units.decibels(getattr(layer, side)),
        rank=lambda layer: decibels(getattr(layer, side)),
        narrow=6, wide=7, keep=9, right=True, role=role,
    )  # fmt: skip


def _rest(session: Session) -> tuple[Column, ...]:
    def effect(layer: LayerResult) -> float | None:
        return None if layer.effect is None else abs(layer.effect)

    def known(layer: LayerResult) -> float | None:
        return session.saturation.get(key_of(layer))

    def numbers(name: str, cell: Cell, rank: Rank, keep: int, width: int = 6, role: str = "") -> Column:
        return Column(name, cell, rank, width, width, keep, right=True, falling=True, role=role)

    def origin(layer: LayerResult) -> str:
        return layer.created_by or layer.source

    return (
        numbers("×floor", lambda r: units.times(r.excess), lambda r: r.excess, 3, role="made"),
        numbers("effect", lambda r: units.effect(r.effect), effect, 4, 8, role="made"),
        numbers("sat%", lambda r: saturation(session, r), known, 5, 5),
        Column("source", origin, origin, 10, 30, 11, clip=units.clip_left),
    )


def decibels(error: object) -> float | None:
    """What an SQNR sorts by."""
    return getattr(error, "sqnr_db", None)


def dtype_chain(layer: LayerResult) -> str:
    """The dtype on the CPU and on the HTP."""
    left, right = torch_dtype(layer.reference_dtype), units.dtype(layer.dtype)
    return right if not left or left == right else f"{left}→{right}"


def saturation(session: Session, layer: LayerResult) -> str:
    """The share of saturated elements as a cell."""
    key = key_of(layer)
    if key not in session.saturation:
        return units.NONE if layer.reason or layer.encoding is None else "…"
    share = session.saturation[key]
    return units.NONE if share is None else units.signed(100 * share)


def fitted(all_columns: tuple[Column, ...], widths: dict[str, int], room: int) -> list[tuple[Column, int]]:
    """The columns that fit, with their widths; the least needed are dropped first, also for names to read.

    Args:
        all_columns: in their order.
        widths: cells of the longest text of each, by name.
        room: cells that the table may take.
    """
    kept = list(all_columns)
    sizes = {c.name: max(min(widths[c.name], c.narrow), len(c.name)) for c in kept}
    while len(kept) > 1 and sum(sizes[c.name] + GAP for c in kept) + SIGN - GAP > room:
        kept.remove(max(kept, key=lambda c: c.keep))
    spare = room - SIGN + GAP - sum(sizes[c.name] + GAP for c in kept)
    name = min(kept, key=lambda c: c.keep)
    while sizes[name.name] + spare < min(widths[name.name], READABLE):
        least = max(kept, key=lambda c: c.keep)
        if least.keep < SPARE:
            break
        kept.remove(least)
        spare += sizes[least.name] + GAP
    while spare > 0:
        short = [c for c in kept if sizes[c.name] < min(widths[c.name], c.wide)]
        if not short:
            break
        for column in sorted(short, key=lambda c: c.keep)[:spare]:
            sizes[column.name] += 1
            spare -= 1
    return [(c, sizes[c.name]) for c in kept]
