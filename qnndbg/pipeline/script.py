"""Runs somebody's own script as ``__main__`` under instrumentation, as a profiler would."""

from __future__ import annotations

import atexit
import runpy
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import torch
from msgspec.structs import replace

from qnndbg.capture.instrument import instrumented
from qnndbg.capture.lowering import Lowering
from qnndbg.capture.recorder import Recorder
from qnndbg.capture.session import Session
from qnndbg.pipeline import publish
from qnndbg.pipeline.descriptors import redirect, restored
from qnndbg.pipeline.failures import not_delegated
from qnndbg.pipeline.finish import finish
from qnndbg.pipeline.jobs import Job, Lowered, Report
from qnndbg.pipeline.known import note_known
from qnndbg.recording.place import numbered, partial
from qnndbg.recording.writer import Writer

INTERRUPTED = 130
"""What a shell says of a Python that a KeyboardInterrupt ended."""


def lower_in_script(job: Job, report: Report, build: str) -> list[Lowered]:
    """Run a script and record every QNN lowering that happens in it.

    The script's exit code and its exception go to the parent; a lowering that failed is a recording of
    what it got to.
    """
    place = Path(job.folder)
    template = Writer(partial(place)).read_manifest()
    environment = replace(template.environment, qnn_build=build)

    def new_recorder(number: int) -> Recorder:
        manifest = replace(template, environment=environment)
        if number:
            writer = publish.begin(numbered(place, number), manifest)
        else:  # begun by the process that started this one
            writer = Writer(partial(place))
            writer.manifest(manifest)
        return Recorder(writer, lambda e: report({"pass": e.name, "stage": e.stage, "changed": e.changed}))

    session = Session(new_recorder, note_known)
    report({"step": "script"})
    with instrumented(session):
        atexit.register(redirect, Path(job.log))  # runs last, and what native code says behind it is ours
        report({"exit": _run(job.target, job.arguments or ())})
        atexit.register(restored, redirect(Path(job.log)))  # runs first: the script's handlers come behind it
        if any(lowering.edge_manager is not None for lowering in session.lowerings):
            report({"step": "tap"})
        return [
            _finished(session, lowering, numbered(place, number), report)
            for number, lowering in enumerate(session.lowerings)
        ]


def _finished(session: Session, lowering: Lowering, place: Path, report: Report) -> Lowered:
    writer = lowering.recorder.writer
    report({"recording": str(place)})
    if lowering.edge_manager is None:
        writer.update_manifest(failure=not_delegated(lowering))
        return Lowered(folder=str(writer.folder.absolute()), steps=())
    return finish(session, lowering, writer, {})


def _run(script: str, arguments: tuple[str, ...]) -> int:
    """The exit code that the script would have had."""
    sys.argv[:] = [script, *arguments]
    try:
        with _left_in_order():
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF  # all that a process can say
        sys.stderr.write(f"{stop.code}\n")  # as Python itself does with such a code
        return 1
    except BaseException as error:  # noqa: BLE001 the script's own failure is its result, which is passed on
        traceback.print_exc(file=sys.stderr or sys.__stderr__)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    finally:
        for name in ("stdout", "stderr"):
            _flush(getattr(sys, name))
            setattr(sys, name, getattr(sys, f"__{name}__"))
    return 0


@contextmanager
def _left_in_order() -> Iterator[None]:
    """What comes behind the script is ours, whatever it did to the state that all code shares."""
    path, limit, dtype = [*sys.path], sys.getrecursionlimit(), torch.get_default_dtype()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        sys.path += [entry for entry in path if entry not in sys.path]
        sys.setrecursionlimit(max(limit, sys.getrecursionlimit()))
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)


def _flush(stream: TextIO | None) -> None:
    """Write out what the script left in a stream, which may be one of its own, closed or none at all."""
    if stream is not None and not stream.closed:
        stream.flush()
