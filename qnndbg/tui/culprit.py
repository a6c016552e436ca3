"""A place that the step of the quantiser is blamed for: where it is looked at, and the evidence as lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rich.text import Text

from qnndbg.analyze.timeline import explicit_encodings
from qnndbg.errors import QnndbgError
from qnndbg.model.result import Source
from qnndbg.report import units
from qnndbg.tui.layer_parts import code_lines
from qnndbg.tui.places import GraphAt, LayerAt, NodeAt, Place
from qnndbg.tui.sheet import Line
from qnndbg.tui.state import Session
from qnndbg.tui.twins import called, descendant
from qnndbg.tui.walk import Stop, encoding_text
from qnndbg.tui.words import cut, wrapped

STAGES = ("quantized", "annotation")
"""Graphs with the names that sources of the quantiser's step have; constants are in the second one only."""


def place_of(session: Session, source: Source) -> Place:
    """Where a source is looked at: a QNN tensor, or a node."""
    for stage in STAGES if source.step == "quantisation" else ():
        at = session.located(GraphAt(stage, source.method))
        with suppress(QnndbgError):  # said when it is looked at
            stops = session.walk(at).stops
            for name in (source.name, source.name.replace(".", "_")):
                if name in stops:
                    return NodeAt(name, at)
    return session.named.get(source.name) or NodeAt(called(session, source.name))


def source_of(session: Session, at: GraphAt, stop: Stop) -> Source | None:
    """The source of the quantiser's step that a node is, of the worst output that it is one of."""
    if at.stage not in STAGES:
        return None
    for source in session.answer.sources:
        names = (source.name, source.name.replace(".", "_"))
        if (source.step, source.method) == ("quantisation", at.method) and stop.name in names:
            return source
    return None


def evidence(session: Session, at: GraphAt, stop: Stop, folder: Path, width: int) -> Iterator[Line]:
    """Its share and cause, its encoding, its numbers and its code; nothing of a node that is no source."""
    source = source_of(session, at, stop)
    if source is None:
        return
    share = f"{units.effect(source.share)} of the error of the quantisation"
    of = f" of output {source.output}" if source.output else ""
    for i, part in enumerate(wrapped(f"{share}{of}: {source.detail}", width - 6)):
        sign = f"    {units.MADE_HERE} " if not i else "      "
        yield Line(cut(Text(f"{sign}{part}", "made"), width), data=source, stop=not i)
    encoding = explicit_encodings(session.graph(at.digest)).get(stop.name) if at.digest else None
    try:
        key = descendant(session, at, stop)
    except QnndbgError as error:
        yield Line(cut(Text(f"      {units.BROKEN} {error.fact}", "bad"), width), data=source)
        key = None
    facts = [
        f"encoding {encoding_text(encoding)} {encoding.dtype}" if encoding is not None else "",
        _numbers(session, key) if key is not None else "",
        f"on the HTP {key.tensor}, which l opens" if key is not None else "",
    ]
    text = " · ".join(fact for fact in facts if fact)
    if text:
        yield Line(cut(Text(f"      {text}"), width), key, source)
    yield from code_lines(folder, source.source or stop.source, width)


def _numbers(session: Session, key: LayerAt) -> str:
    """How close its value is to eager once it is quantised."""
    ladder = session.recording.layer_ladder(key.method)
    if ladder is None or "quantized" not in ladder.rungs:
        return ""
    at = ladder.rungs.index("quantized")
    for layer in ladder.layers:
        if (layer.partition, layer.tensor) == (key.partition, key.tensor):
            decibels = layer.against_eager[at]
            return f"{units.sqnr(decibels)} dB against eager" if decibels is not None else ""
    return ""
