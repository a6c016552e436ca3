"""Makes a recording: starts the jobs one after the other and keeps what each of them leaves.

Runs in the user's process and imports neither torch nor ExecuTorch.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec
from msgspec.structs import replace

import qnndbg
from qnndbg.analyze.compare import compare
from qnndbg.errors import LoweringError, QnndbgError, RecordingError, UsageError
from qnndbg.execute.native_log import qnn_complaint
from qnndbg.execute.sdk import find_sdk
from qnndbg.execute.worker import run_job
from qnndbg.model.recording import Environment, Failure, Manifest
from qnndbg.pipeline.jobs import Job, Lowered
from qnndbg.recording.store import SUFFIX, Recording, open_recording
from qnndbg.recording.writer import Writer, file_name

PACKAGES = ("torch", "executorch", "torchao", "onnxruntime-qnn", "numpy")
OnEvent = Callable[[dict[str, object]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to record, and how."""

    target: str
    precision: str = "fp16"
    soc: str = "SM8650"
    output: Path | None = None
    """The recording's folder; by default made of target and precision, in the current folder."""
    sdk: str | None = None
    force: bool = False
    """Replace a complete recording that is already there."""


def record(request: Request, on_event: OnEvent) -> Recording:
    """Record a target, and compare what the HTP and the CPU make of it.

    Args:
        request: what to record.
        on_event: called with each event of the workers: a ``step`` that begins or a ``pass`` that ran.

    Raises:
        QnndbgError: a step failed. What was captured until then is a recording all the same, under its
            final name, and its manifest says what happened.
    """
    check_target(request.target)
    folder = _place(request)
    sdk = find_sdk(request.sdk)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    writer = Writer(partial)
    writer.manifest(_manifest(request, sdk.source))
    steps = _Steps(writer, on_event, str(sdk.root) if sdk.source != "pip" else "")
    try:
        steps.run(request)
        writer.update_manifest(complete=True)
    except UsageError:
        shutil.rmtree(partial)
        raise
    except (QnndbgError, KeyboardInterrupt) as error:
        raise _kept(writer, folder, steps.step, error) from error
    _publish(partial, folder)
    return open_recording(folder)


def _kept(writer: Writer, folder: Path, step: str, error: QnndbgError | KeyboardInterrupt) -> BaseException:
    """Keep what was captured before a failure, and give the error that says where it is.

    A recording that the failed one was to replace stays as it is.
    """
    if folder.exists() and _is_complete(folder):
        folder = folder.with_name(f"{folder.stem}-failed{SUFFIX}")
    if isinstance(error, KeyboardInterrupt):
        writer.update_manifest(failure=Failure(step=step, error="interrupted", exit_code=130))
        _publish(writer.folder, folder)
        return error
    fact = error.fact
    if isinstance(error, LoweringError) and (said := qnn_complaint(writer.log("worker"))):
        fact = f"{fact}; QNN says: {said}"
    # Inside the recording, paths start at its folder.
    inner = error.hint.replace(f"{writer.folder.absolute()}/", "").replace(f"{writer.folder}/", "")
    writer.update_manifest(failure=Failure(step=step, error=fact, hint=inner, exit_code=error.exit_code))
    _publish(writer.folder, folder)
    hint = error.hint.replace(str(writer.folder), str(folder))
    where = f"what was captured: qnndbg show {folder}"
    return type(error)(fact, f"{hint}; {where}" if hint else where)


def check_target(target: str) -> None:
    """Refuse what cannot be a target, before anything is started.

    Raises:
        UsageError: with the three forms that it may have.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(
            f"{target!r} is not a target",
            "a target is file.py:factory, package.module:factory or example:NAME",
        )
    if place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"there is no file {place}", "give its path from the current folder")


def default_output(target: str, precision: str) -> Path:
    """The folder that a recording gets if none is asked for."""
    return Path(f"{file_name(target.rpartition(':')[2])}-{precision}{SUFFIX}")


def _place(request: Request) -> Path:
    folder = request.output or default_output(request.target, request.precision)
    if folder.suffix != SUFFIX:
        folder = folder.with_name(folder.name + SUFFIX)
    if not folder.exists():
        return folder
    if not (folder / "manifest.json").is_file():
        raise UsageError(f"{folder} exists and is no recording", "choose another place with -o")
    if not request.force and _is_complete(folder):
        raise UsageError(f"{folder} exists", "replace it with --force, or choose another place with -o")
    return folder


def _is_complete(folder: Path) -> bool:
    """Whether there is something to lose: a recording that failed is replaced by the next try."""
    try:
        return open_recording(folder).manifest.complete
    except RecordingError:
        return True


def _publish(partial: Path, folder: Path) -> None:
    """Move the finished folder to its name; an older recording there is removed only now."""
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)


def _manifest(request: Request, source: str) -> Manifest:
    place, _, name = request.target.rpartition(":")
    # A path of this machine has no place in a recording that is committed or sent.
    target = f"{Path(place).name}:{name}" if place.endswith(".py") else request.target
    return Manifest(
        target=target, precision=request.precision, soc=request.soc, environment=_environment(source)
    )


def _environment(source: str) -> Environment:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return Environment(
        qnndbg=qnndbg.__version__,
        python=platform.python_version(),
        host=f"{platform.system()} {platform.machine()}",
        packages=found,
        sdk=source,
    )


class _Steps:
    def __init__(self, writer: Writer, on_event: OnEvent, sdk: str) -> None:
        self.writer, self.on_event, self.sdk = writer, on_event, sdk
        self.step = ""
        self.lowered: Lowered | None = None

    def run(self, request: Request) -> None:
        job = Job(
            folder=str(self.writer.folder.absolute()),
            target=request.target,
            precision=request.precision,
            soc=request.soc,
            sdk=self.sdk,
        )
        crash = self._work(job)
        failed = self.step
        self._note({"step": "compare"})
        self.writer.comparison(compare(open_recording(self.writer.folder)))
        if crash is not None:
            self.step = failed
            raise crash

    def _work(self, job: Job) -> QnndbgError | None:
        """Do what can be done; gives the first failure of a measurement.

        A measurement that kills its worker costs only itself: another worker goes on behind it.
        """
        first: QnndbgError | None = None
        while True:
            try:
                run_job(
                    "qnndbg.pipeline.work:work",
                    msgspec.to_builtins(job),
                    log=self.writer.log("worker"),
                    on_event=self._note,
                )
                return first
            except QnndbgError as error:
                first = first or error
                # Without a lowering there is nothing to measure, and what dies early would die again.
                if self.lowered is None or self.step not in job.measures:
                    raise
                rest = job.measures[job.measures.index(self.step) + 1 :]
                if not rest:
                    return first
                job = replace(job, lowered=self.lowered, measures=rest)

    def _note(self, event: dict[str, object]) -> None:
        self.step = str(event.get("step", self.step))
        if "lowered" in event:
            self.lowered = msgspec.convert(event["lowered"], Lowered)
        self.on_event(event)
