"""Runs somebody's own script as ``__main__`` under instrumentation, as a profiler would."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

from msgspec.structs import replace

from qnndbg.capture.instrument import instrumented
from qnndbg.capture.lowering import Lowering
from qnndbg.capture.recorder import Recorder
from qnndbg.capture.session import Session
from qnndbg.pipeline import publish
from qnndbg.pipeline.descriptors import redirect
from qnndbg.pipeline.failures import not_delegated
from qnndbg.pipeline.finish import finish
from qnndbg.pipeline.jobs import Job, Lowered, Report
from qnndbg.pipeline.known import note_known
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
        report({"exit": _run(job.target, job.arguments or ())})
        redirect(Path(job.log))
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
