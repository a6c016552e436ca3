"""Measures: both programs on the HTP emulator, then the CPU references."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from qnndbg.analyze.rules.method import REPEAT
from qnndbg.capture.tensors import array_from_tensor
from qnndbg.errors import QnndbgError
from qnndbg.execute import htp
from qnndbg.execute.etdump import NotDumpedError, Tap
from qnndbg.model.graph import TensorRef
from qnndbg.model.recording import Accuracy, QnnGraph, QnnTensor, Run, Value
from qnndbg.pipeline.calls import count_correct
from qnndbg.pipeline.finish import tapped_name
from qnndbg.pipeline.jobs import Samples, Task
from qnndbg.pipeline.refer import refer
from qnndbg.pipeline.stored import tensor_from
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer

REPEATED = 2.0
"""A program that takes fewer seconds is executed twice, to see whether it gives the same."""
QNN_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


def measure(task: Task) -> None:
    """Do one measurement and write its runs into the recording."""
    folder = Path(task.folder)
    if task.step == "refer":
        refer(folder)
        return
    recording, writer = open_recording(folder), Writer(folder)
    for method, sample in recording.samples:
        if task.step == "htp":
            _execute(recording, writer, method, sample)
            _execute_as_given(recording, writer, method, sample)
        else:
            _execute_tapped(recording, writer, method, sample)
    if task.step == "htp" and task.samples is not None:
        _note_accuracy(recording, writer, task.samples)


def _execute(recording: Recording, writer: Writer, method: str, sample: int) -> None:
    program = _program(recording, "htp")
    inputs = [_arguments(recording, method, _inputs(recording, method, sample))]
    start = time.monotonic()
    outputs = htp.execute(program, inputs, method)[0]
    problems = {}
    # Loaded anew, so that states start as they did.
    if time.monotonic() - start < REPEATED and not _same(outputs, htp.execute(program, inputs, method)[0]):
        problems[REPEAT] = "a second execution of the same program on the same inputs gives other outputs"
    results = tuple(_stored(writer, o) for o in outputs)
    writer.run(Run(runner="htp", method=method, sample=sample, results=results, problems=problems))


def _same(one: list[Any], other: list[Any]) -> bool:
    """Whether outputs have the same bits."""
    return all(
        a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        for a, b in zip(one, other, strict=True)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    )


def _execute_as_given(recording: Recording, writer: Writer, method: str, sample: int) -> None:
    """Once more with inputs in the layout that they were given in; what the runtime says of it is data."""
    given = recording.inputs(method, sample)
    if not any(item.strides for item in given) or any(0 in item.strides for item in given):
        return  # elements that share memory cannot be laid out again
    inputs = [
        _laid_out(value, item.strides)
        for item, value in zip(given, _inputs(recording, method, sample), strict=True)
    ]
    results: tuple[TensorRef | None, ...] = ()
    problems = {}
    try:
        arguments = _arguments(recording, method, inputs)
        outputs = htp.execute(_program(recording, "htp"), [arguments], method)[0]
        results = tuple(_stored(writer, o) for o in outputs)
    except QnndbgError as error:
        problems["inputs"] = error.fact
    run = Run(runner="htp-given", method=method, sample=sample, results=results, problems=problems)
    writer.run(run)


def _laid_out(value: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value) if strides else value


def _execute_tapped(recording: Recording, writer: Writer, method: str, sample: int) -> None:
    program = _program(recording, tapped_name(method))
    if not program.exists():  # the build failed, which a note says
        return
    inputs = _arguments(recording, method, _inputs(recording, method, sample))
    try:
        outputs, taps = htp.execute_tapped(program, inputs, *_room(recording, method), method)
    except NotDumpedError as error:
        writer.add_notes(f"{error.fact}; {error.hint}")
        return
    graphs = tuple(g for g in recording.qnn if g.method == method)
    assigned = _assigned(taps, graphs)
    cut = _cut_short(assigned, graphs)
    values = tuple(
        Value(name=name, partition=partition, tensor=writer.tensor(array))
        for partition, name, array in assigned
        if (partition, name) not in cut
    )
    problems = {tensor.node or tensor.name: problem for tensor, problem in cut.values()}
    results = _aligned([_stored(writer, o) for o in outputs], recording, method)
    run = Run(runner="htp-tapped", method=method, sample=sample, results=results)
    writer.run(replace(run, values=values, problems=problems))


def _aligned(
    results: list[TensorRef | None], recording: Recording, method: str
) -> tuple[TensorRef | None, ...]:
    """The results in the places of the production build's, which may have outputs that are no tensors."""
    ports = next((m.outputs for m in recording.manifest.methods if m.name == method), ())
    given = iter(results)
    return tuple(None if port is None else next(given, None) for port in ports) or tuple(results)


def _program(recording: Recording, name: str) -> Path:
    return recording.folder / "programs" / f"{name}.pte"


def _inputs(recording: Recording, method: str, sample: int) -> list[torch.Tensor]:
    return [tensor_from(recording, item.tensor) for item in recording.inputs(method, sample)]


def _arguments(recording: Recording, method: str, tensors: list[torch.Tensor]) -> list[Any]:
    """All that a method is called with, what is no tensor among it."""
    known = next((m for m in recording.manifest.methods if m.name == method), None)
    if known is None or not known.fixed:
        return list(tensors)
    given, fixed = iter(tensors), iter(known.fixed)
    return [next(fixed if port is None else given) for port in known.inputs]


def _stored(writer: Writer, output: Any) -> TensorRef | None:
    return writer.tensor(*array_from_tensor(output)) if isinstance(output, torch.Tensor) else None


def _room(recording: Recording, method: str) -> tuple[int, int]:
    """Upper bounds of the bytes and the number of tensors that a tapped run logs."""
    sizes = [
        math.prod(t.shape) * _bytes(t.dtype)
        for g in recording.qnn
        if g.method == method
        for t in g.tensors
        if t.kind != "static"
    ]
    outer = recording.last_graph("partition", method)
    specs = [spec for node in (outer.nodes if outer else ()) for spec in node.outputs if spec is not None]
    # What stays on the CPU is logged too, at up to 8 bytes an element.
    sizes += [math.prod(d for d in spec.shape if isinstance(d, int)) * 8 for spec in specs]
    return sum(sizes), len(sizes)


def _bytes(dtype: str) -> int:
    """Bytes of an element, and an upper bound for a dtype that is not known."""
    return QNN_BYTES.get(dtype.rpartition("_")[2], 8)


def _assigned(taps: list[Tap], graphs: tuple[QnnGraph, ...]) -> list[tuple[int, str, Any]]:
    """Taps with their partition, told by names: delegate calls run in an order of their own."""
    names = {g.partition: {t.name for t in g.tensors} for g in graphs}
    calls: dict[int, set[str]] = {}
    for call, name, _ in taps:
        calls.setdefault(call, set()).add(name)
    partition = {call: max(names, key=lambda p: (len(names[p] & seen), -p)) for call, seen in calls.items()}
    return [(partition[call], name, array) for call, name, array in taps]


def _cut_short(
    taps: list[tuple[int, str, Any]], graphs: tuple[QnnGraph, ...]
) -> dict[tuple[int, str], tuple[QnnTensor, str]]:
    """Taps that hold the first bytes of their tensor only: ExecuTorch dumps int64 as bytes (1.5.1)."""
    tensors = {(g.partition, t.name): t for g in graphs for t in g.tensors}
    found = {}
    for partition, name, array in taps:
        tensor = tensors.get((partition, name))
        if tensor is not None and array.dtype.itemsize < QNN_BYTES.get(tensor.dtype.rpartition("_")[2], 0):
            found[partition, name] = tensor, f"dumped as {array.dtype}, which cuts off most of {tensor.dtype}"
    return found


def _note_accuracy(recording: Recording, writer: Writer, samples: Samples) -> None:
    columns = [tensor_from(recording, ref) for ref in samples.inputs]
    rows = [[column[i].contiguous() for column in columns] for i in range(len(samples.labels))]
    correct = count_correct(
        [outputs[0] for outputs in htp.execute(_program(recording, "htp"), rows)], samples.labels
    )
    known = recording.manifest.accuracy
    before = known.correct if known is not None else {}
    writer.update_manifest(accuracy=Accuracy(samples=len(samples.labels), correct=before | {"htp": correct}))
