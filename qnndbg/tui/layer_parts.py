"""The sections of the page of one layer, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from qnndbg.analyze.elements import Elements, Histogram
from qnndbg.analyze.phrases import short_op
from qnndbg.analyze.timeline import Step
from qnndbg.model.graph import QuantParams
from qnndbg.model.recording import QnnGraph
from qnndbg.model.result import ErrorMetrics, LayerResult
from qnndbg.report import units
from qnndbg.tui.page import title
from qnndbg.tui.places import GraphAt, LayerAt, NodeAt, TensorAt
from qnndbg.tui.plots import gathered, real_text, spark
from qnndbg.tui.sheet import Line
from qnndbg.tui.source import lines_around
from qnndbg.tui.state import Session
from qnndbg.tui.walk import encoding_text, shape_text, torch_dtype
from qnndbg.tui.words import cut


def facts(layer: LayerResult, folder: Path, width: int) -> Iterator[Line]:
    """What it is and where in the user's code it comes from."""
    qnn = f" → QNN {layer.qnn_op}" if layer.qnn_op else ""
    place = NodeAt(layer.tensor, GraphAt("qnn", layer.method, layer.partition))
    text = Text.assemble(
        (f"{layer.op or layer.given}{qnn}", "title"),
        f"  {units.dtype(layer.dtype)} {shape_text(layer.shape)}",
    )
    made = layer.created_by and f"made by {layer.created_by}"
    where = " · ".join(part for part in (layer.module, layer.source, made) if part)
    if text.cell_len + len(where) + 2 > width:
        yield Line(cut(text, width), place, layer)
        text = Text()
    if where:
        text.append(f"  {where}", "faint")
        yield Line(cut(text, width), place, layer)
    elif text:
        yield Line(cut(text, width), place, layer)
    if layer.reason:
        yield Line(Text(f"{units.BROKEN} not compared: {layer.reason}", "warn"), data=layer)
    yield from code_lines(folder, layer.source, width)


def code_lines(folder: Path, source: str, width: int) -> Iterator[Line]:
    """The lines of the user's code around ``file:line``, where the file is at hand."""
    at = source.rpartition(":")[2]
    for number, code in lines_around(folder, source):
        here = str(number) == at
        yield Line(
            cut(Text(f"{'▶' if here else ' '}{number:>5}  {code}", "strong" if here else "faint"), width),
            data=source,
        )


def errors(session: Session, layer: LayerResult, width: int) -> Iterator[Line]:
    """Both errors in all units."""
    unit = session.unit
    yield title("Error", f"largest in {unit}, SQNR in dB, times noise floor")
    rows: tuple[tuple[str, ErrorMetrics | None, float | None], ...] = (
        ("made here", layer.local, layer.excess),
        ("accumulated", layer.accumulated, layer.inherited),
    )
    for name, error, times in rows:
        loud = "made" if name == "made here" and (times or 0) > 1 else "faint" if name != "made here" else ""
        size = "" if error is None or error.max_abs is None else f"|e| ≤ {real_text(error.max_abs)}"
        part = "" if error is None else f"{units.percent(error.mismatched, error.elements)} differ"
        bad = f"  {error.nonfinite} not finite" if error is not None and error.nonfinite else ""
        text = (
            f"  {name:<12} {units.steps(error, unit):>7} {units.decibels(error):>7} "
            f"{'×' + units.times(times):>7}  {size}  {part}"
        )
        yield Line(cut(Text.assemble((text, loud), (bad, "bad")), width), data=error)
    if layer.effect is not None:
        fused = "; fused with the next op, so it did not clip here" if layer.fused else ""
        text = f"  it makes {units.effect(layer.effect)} of the output's error{fused}"
        yield Line(cut(Text(text), width), data=layer)


def stages(steps: Sequence[Step], key: LayerAt, width: int) -> Iterator[Line]:
    """What stands for it at each stage."""
    yield title("Stages", "what stands for it, dB against eager, dtype and encoding")
    room = max(min(width - 67, 50), 20)
    before: QuantParams | None = None
    for step in steps:
        changed = step.encoding is not None and before is not None and _differs(step.encoding, before)
        dtype = units.dtype(step.dtype) if step.stage == "qnn" else torch_dtype(step.dtype)
        order = f" order {''.join(map(str, step.axis_order))}" if step.axis_order else ""
        text = Text.assemble(
            f"  {step.stage:<11} {units.clip_tensor(step.name, room):<{room}} ",
            (f"{units.sqnr(step.against_eager):>6} ", "changed" if step.worsens else "faint"),
            f"{dtype:<5}",
            (f" {encoding_text(step.encoding):<20}", "changed" if changed else ""),
            (f"{'~' if changed else ' '} {shape_text(step.shape)}{order}", "faint"),
        )
        yield Line(cut(text, width), _of_step(step, key), step)
        before = step.encoding or before


def _differs(a: QuantParams, b: QuantParams) -> bool:
    """The integers mean something else; that 16 bits are held in 32 is no difference."""
    return (a.scales, a.zero_points, a.qmin, a.qmax) != (b.scales, b.zero_points, b.qmin, b.qmax)


def _of_step(step: Step, key: LayerAt) -> NodeAt | None:
    if step.stage == "program":
        return None
    partition = key.partition if step.stage in {"preprocess", "qnn"} else None
    return NodeAt(step.name, GraphAt(step.stage, key.method, partition))


def values(found: Elements, local: Elements | None, step: float | None, width: int) -> Iterator[Line]:
    """Histograms of both sides and of the errors, and the error by channel."""
    room = min(max(width - 40, 24), 96)
    yield title("Values", "heights are logarithms of counts")
    for name, histogram in (("cpu", found.reference), ("htp", found.target)):
        yield _histogram(name, histogram, room, "bar", width)
    for name, of, style in (("error made", local, "made"), ("error", found, "faint")):
        if of is not None and of.worst:
            yield _histogram(name, of.error, room, style, width, step)
        elif of is not None:
            yield Line(Text(f"  {name:<10} {'none':>11}", "faint"))
    if found.nonfinite:
        yield Line(Text(f"  {found.nonfinite} of {found.elements} elements are not finite", "bad"))
    made = local or found
    if len(made.channels) > 1:
        peak = max(made.channels)
        at = made.channels.index(peak)
        text = Text.assemble(
            f"  {'by channel':<12}",
            (spark(gathered(made.channels, room)), "made"),
            f"  {len(made.channels)} along axis {made.channel_axis}; most in {at}: RMS {real_text(peak)}",
        )
        yield Line(cut(text, width), data=made.channels)


def _histogram(
    name: str, histogram: Histogram, room: int, style: str, width: int, step: float | None = None
) -> Line:
    def end(value: float) -> str:
        return real_text(value) if step is None else f"{real_text(round(value / step, 1))} LSB"

    text = Text.assemble(
        f"  {name:<10} {end(histogram.low):>11} ",
        (spark(gathered(histogram.counts, room), logarithmic=True), style),
        f" {end(histogram.high)}",
    )
    return Line(cut(text, width), data=histogram)


def worst(found: Elements, side: str, step: float | None, place: TensorAt, width: int) -> Iterator[Line]:
    """The elements that are furthest off."""
    if not found.worst:
        return
    yield title("Worst elements", f"index, {side}, htp, error")
    for element in found.worst:
        error = element.target - element.reference
        lsb = "" if step is None else f"{real_text(round(error / step, 1))} LSB"
        index = ",".join(map(str, element.index))
        text = Text.assemble(
            f"  [{index}]".ljust(20),
            f"{real_text(element.reference):>11} {real_text(element.target):>11} {real_text(error):>11}  ",
            (lsb, "made"),
        )
        yield Line(cut(text, width), replace(place, element=element.index), element)


def neighbours(session: Session, key: LayerAt, qnn: QnnGraph, width: int) -> Iterator[Line]:
    """What it is computed from and who reads it, each with its own error; then its QNN op."""
    maker = next((op for op in qnn.ops if key.tensor in op.outputs), None)
    readers = [op for op in qnn.ops if key.tensor in op.inputs]
    if maker is not None and maker.inputs:
        yield title("Computed from")
        for name in maker.inputs:
            yield _neighbour(session, key, name, width)
    if readers:
        yield title("Read by")
        for op in readers:
            for name in op.outputs[:1]:
                yield _neighbour(session, key, name, width)
    if maker is not None:
        yield title("QNN op")
        params = ", ".join(f"{k}={v}" for k, v in sorted(maker.params.items()))
        text = Text.assemble(f"  {maker.type}", (f" of {maker.package}  ", "faint"), params)
        yield Line(cut(text, width), NodeAt(key.tensor, GraphAt("qnn", key.method, key.partition)), maker)


def _neighbour(session: Session, key: LayerAt, name: str, width: int) -> Line:
    there = LayerAt(key.method, key.partition, name)
    layer = session.layers.get(there)
    if layer is None:
        return Line(Text(f"  {name}", "faint"), NodeAt(name, GraphAt("qnn", key.method, key.partition)))
    made = there in session.made
    sign = units.MADE_HERE if made else units.INHERITED if there in session.inherited else " "
    room = max(min(width - 56, 36), 16)
    text = Text.assemble(
        (f"{sign} ", "made" if made else "faint"),
        f"{units.clip_tensor(name, room):<{room}} {units.clip_right(short_op(layer.op), 16):<16}",
        (f" local {units.steps(layer.local, session.unit):>7}", "made" if made else ""),
        (f"  accumulated {units.steps(layer.accumulated, session.unit):>7}", "faint"),
    )
    if layer.reason:
        text = Text(f"  {units.clip_tensor(name, room):<{room}} {layer.reason}", "faint")
    return Line(cut(text, width), there, layer)
