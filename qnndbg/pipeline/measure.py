"""Measures: both programs on the HTP emulator, then the CPU references."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from qnndbg.capture.tensors import array_from_tensor
from qnndbg.execute import htp
from qnndbg.execute.etdump import Tap
from qnndbg.model.recording import Accuracy, QnnGraph, Run, Value
from qnndbg.pipeline.calls import count_correct
from qnndbg.pipeline.jobs import Samples
from qnndbg.pipeline.refer import refer, tensor_from
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer

QNN_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


def measure(folder: Path, step: str, samples: Samples | None) -> None:
    """Do one step of ``MEASURES`` and write its runs into the recording."""
    if step == "refer":
        refer(folder)
    else:
        _execute(folder, step, samples)


def _execute(folder: Path, runner: str, samples: Samples | None) -> None:
    recording, writer = open_recording(folder), Writer(folder)
    program = folder / "programs" / f"{runner}.pte"
    inputs = [tensor_from(recording, item.tensor) for item in recording.manifest.inputs]
    values: tuple[Value, ...] = ()
    if runner == "htp-tapped":
        outputs, taps = htp.execute_tapped(program, inputs, *_room(recording))
        values = tuple(
            Value(name=name, partition=partition, tensor=writer.tensor(array))
            for partition, name, array in _assigned(taps, recording.qnn)
        )
    else:
        outputs = htp.execute(program, [inputs])[0]
    results = tuple(
        writer.tensor(*array_from_tensor(o)) if isinstance(o, torch.Tensor) else None for o in outputs
    )
    writer.run(Run(id=runner, runner=runner, results=results, values=values))  # type: ignore[arg-type]
    if runner == "htp" and samples is not None:
        _note_accuracy(recording, writer, program, samples)


def _room(recording: Recording) -> tuple[int, int]:
    """Upper bounds of the bytes and the number of tensors that a tapped run logs."""
    sizes = [
        math.prod(t.shape) * _bytes(t.dtype) for g in recording.qnn for t in g.tensors if t.kind != "static"
    ]
    outer = recording.last_graph("partition")
    specs = [spec for node in (outer.nodes if outer else ()) for spec in node.outputs if spec is not None]
    # What stays on the CPU is logged too, at up to 8 bytes an element.
    sizes += [math.prod(d for d in spec.shape if isinstance(d, int)) * 8 for spec in specs]
    return sum(sizes), len(sizes)


def _bytes(dtype: str) -> int:
    return QNN_BYTES.get(dtype.rpartition("_")[2], 8)


def _assigned(taps: list[Tap], graphs: tuple[QnnGraph, ...]) -> list[tuple[int, str, Any]]:
    """Taps with their partition, told by names: delegate calls run in an order of their own."""
    names = {g.partition: {t.name for t in g.tensors} for g in graphs}
    calls: dict[int, set[str]] = {}
    for call, name, _ in taps:
        calls.setdefault(call, set()).add(name)
    partition = {call: max(names, key=lambda p: (len(names[p] & seen), -p)) for call, seen in calls.items()}
    return [(partition[call], name, array) for call, name, array in taps]


def _note_accuracy(recording: Recording, writer: Writer, program: Path, samples: Samples) -> None:
    columns = [tensor_from(recording, ref) for ref in samples.inputs]
    rows = [[column[i].contiguous() for column in columns] for i in range(len(samples.labels))]
    correct = count_correct([outputs[0] for outputs in htp.execute(program, rows)], samples.labels)
    known = recording.manifest.accuracy
    before = known.correct if known is not None else {}
    writer.update_manifest(accuracy=Accuracy(samples=len(samples.labels), correct=before | {"htp": correct}))
