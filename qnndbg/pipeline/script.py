"""Runs somebody's own script as ``__main__`` under instrumentation, as a profiler would."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

from msgspec.structs import replace

from qnndbg.capture.instrument import instrumented
from qnndbg.capture.lowering import Lowering
from qnndbg.capture.recorder import Recorder
from qnndbg.capture.session import Session
from qnndbg.model.recording import Failure
from qnndbg.pipeline.finish import finish
from qnndbg.pipeline.jobs import Job, Lowered, Report
from qnndbg.recording.place import numbered, partial
from qnndbg.recording.writer import Writer


def lower_in_script(job: Job, report: Report, build: str) -> list[Lowered]:
    """Run a script and record every QNN lowering that happens in it.

    The script's exit code and its exception go to the parent; a lowering that failed is a recording of
    what it got to.
    """
    place = Path(job.folder)
    template = Writer(partial(place)).read_manifest()
    environment = replace(template.environment, qnn_build=build)

    def new_recorder(number: int) -> Recorder:
        writer = Writer(partial(numbered(place, number)))
        writer.manifest(replace(template, environment=environment))
        return Recorder(writer, lambda e: report({"pass": e.name, "stage": e.stage, "changed": e.changed}))

    session = Session(new_recorder)
    report({"step": "script"})
    with instrumented(session):
        report({"exit": _run(job.target, job.arguments or ())})
        _to_log(job.log)
        report({"step": "tap"})
        return [
            _finished(lowering, numbered(place, number), report)
            for number, lowering in enumerate(session.lowerings)
        ]


def _finished(lowering: Lowering, place: Path, report: Report) -> Lowered:
    writer = lowering.recorder.writer
    lowered = Lowered(folder=str(writer.folder))
    report({"recording": str(place)})
    if lowering.edge_manager is None:
        failed = lowering.recorder.failed
        what = (
            f"the pass {failed.name} failed: {failed.error}"
            if failed
            else "the script never delegated to QNN"
        )
        writer.update_manifest(
            failure=Failure(step="script", error=what, hint="the script's own output says more")
        )
        return lowered
    finish(lowering, writer, {})
    return lowered


def _run(script: str, arguments: tuple[str, ...]) -> int:
    """The exit code that the script would have had."""
    sys.argv[:] = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        sys.stderr.write(f"{stop.code}\n")  # as Python itself does with such a code
        return 1
    except BaseException:  # noqa: BLE001 the script's own failure is its result, which is passed on
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _to_log(log: str) -> None:
    """From here on, what native code writes is noise of ours and no output of the script."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
