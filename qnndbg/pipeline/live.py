"""Records the lowerings in a block of the caller's own code, in the caller's own process.

Lowering and the second build happen here; both programs are executed in a worker process, where native
code that crashes costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace
from torch.export import ExportedProgram

from qnndbg.analyze.compare import compare
from qnndbg.capture.instrument import instrumented
from qnndbg.capture.lowering import Lowering, shared_copy
from qnndbg.capture.recorder import Recorder
from qnndbg.capture.session import Session
from qnndbg.capture.shapes import free_axes
from qnndbg.errors import QnndbgError, UsageError
from qnndbg.execute.sdk import activate, build_id, find_sdk
from qnndbg.execute.worker import run_job
from qnndbg.model.recording import Manifest
from qnndbg.pipeline import publish
from qnndbg.pipeline.calls import kinds
from qnndbg.pipeline.descriptors import redirected
from qnndbg.pipeline.failures import failed_pass, not_delegated
from qnndbg.pipeline.finish import finish
from qnndbg.pipeline.jobs import Job, Lowered
from qnndbg.pipeline.known import Inputs, note_known
from qnndbg.recording.place import numbered, partial
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer


class LiveRecording:
    """What is being recorded; the recordings are there once the block has ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._further: dict[int, dict[str, list[Inputs]]] = {}
        self.recordings: tuple[Recording, ...] = ()
        """One per lowering, in their order; empty within the block."""

    def run(self, *inputs: object, method: str = "forward") -> None:
        """Have the method run with further inputs too, on the HTP and the CPU, when the block ends.

        Args:
            inputs: shaped as the example inputs are.
            method: of the last lowering.

        Raises:
            UsageError: they are not shaped as the example inputs are.
        """
        number = max(len(self._session.lowerings) - 1, 0)
        self._check_alike(inputs, method)
        self._further.setdefault(number, {}).setdefault(method, []).append(inputs)

    def _check_alike(self, inputs: Inputs, method: str) -> None:
        lowerings = self._session.lowerings
        first = lowerings[-1].inputs.get(method) if lowerings else None
        if first is None:
            return  # not lowered yet, or in a way that does not show the inputs
        program = lowerings[-1].edge_programs.get(method)
        given, wanted = kinds(inputs), kinds(first)
        if given != wanted and not (program and free_axes(program)):
            raise UsageError(
                f"the further inputs of {method} are {given or 'nothing'}",
                f"make them what the example inputs are: {wanted or 'nothing'}",
            )

    def edge_program(self, method: str = "forward") -> ExportedProgram:
        """The edge program of the last lowering as it was just before ``to_backend``; a copy.

        Raises:
            UsageError: nothing was lowered yet, or not this method.
        """
        lowerings = self._session.lowerings
        programs = lowerings[-1].edge_programs if lowerings else {}
        if method not in programs:
            raise UsageError(
                f"no method {method!r} was lowered yet", f"lowered: {', '.join(programs) or 'nothing'}"
            )
        return shared_copy(programs[method])

    def _inputs(self, number: int) -> dict[str, list[Inputs]]:
        return self._further.get(number, {})


@contextmanager
def record(path: str | Path, *, sdk: str | None = None, force: bool = False) -> Iterator[LiveRecording]:
    """Record every QNN lowering in the block: ``with qnndbg.record("model.qnndbg") as rec: ...``.

    Args:
        path: the recording's folder; those of further lowerings get a number.
        sdk: a QNN SDK; by default ``QNN_SDK_ROOT``, then the one that pip installed.
        force: replace a complete recording that is already there.

    Raises:
        UsageError: something is in the recording's place.
        SdkError: no SDK was found.
        LoweringError: this version of ExecuTorch cannot be hooked, or the HTP could not be run.
    """
    place = publish.free_place(Path(path), force=force, hints=publish.Hints("force=True", "path"))
    found = find_sdk(sdk)
    if "QNN_SDK_ROOT" not in os.environ:  # else the caller has taken charge of the libraries
        activate(found)
    environment = replace(publish.environment(found.source), qnn_build=build_id(found))

    def new_recorder(number: int) -> Recorder:
        manifest = Manifest(target="", precision="", soc="", environment=environment)
        return Recorder(publish.begin(numbered(place, number), manifest))

    session = Session(new_recorder, note_known)
    live = LiveRecording(session)
    try:
        with instrumented(session):
            yield live
            lowered = [_finished(place, n, lowering, live) for n, lowering in enumerate(session.lowerings)]
    except BaseException as error:
        for number, lowering in enumerate(session.lowerings):
            publish.keep(numbered(place, number), "lower", error, reason=failed_pass(lowering.recorder))
        raise
    root = str(found.root) if found.source != "pip" else ""
    live.recordings = tuple(_measured(numbered(place, n), one, root) for n, one in enumerate(lowered))


def _finished(place: Path, number: int, lowering: Lowering, live: LiveRecording) -> Lowered:
    writer = lowering.recorder.writer
    if lowering.edge_manager is None:
        writer.update_manifest(failure=not_delegated(lowering))
        return Lowered(folder=str(writer.folder.absolute()), steps=())
    with redirected(writer.log("worker")):
        return finish(live._session, lowering, writer, live._inputs(number))


def _measured(place: Path, lowered: Lowered, sdk: str) -> Recording:
    writer = Writer(partial(place))
    job = Job(folder=str(place.absolute()), target="", sdk=sdk, tasks=lowered.tasks)
    if lowered.steps:
        try:
            run_job("qnndbg.pipeline.work:work", msgspec.to_builtins(job), log=writer.log("worker"))
        except QnndbgError as error:
            raise publish.keep(place, "measure", error) from error
        writer.comparison(compare(open_recording(writer.folder)))
        writer.update_manifest(complete=True)
    return publish.publish(place)
