"""Makes a recording: starts the jobs one after the other and keeps what each of them leaves.

Runs in the user's process and imports neither torch nor ExecuTorch.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

import qnndbg
from qnndbg.analyze.compare import compare
from qnndbg.errors import QnndbgError, UsageError
from qnndbg.execute.sdk import find_sdk
from qnndbg.execute.worker import run_job
from qnndbg.model.recording import Environment, Failure, Manifest
from qnndbg.pipeline.jobs import MEASURES, LowerJob, LowerResult, MeasureJob
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
    """Replace a recording that is already there."""


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
    except QnndbgError as error:
        hint = error.hint.replace(str(partial), str(folder))
        # Inside the recording, paths start at its folder.
        inner = error.hint.replace(f"{partial.absolute()}/", "").replace(f"{partial}/", "")
        failure = Failure(step=steps.step, error=error.fact, hint=inner, exit_code=error.exit_code)
        writer.update_manifest(failure=failure)
        _publish(partial, folder)
        raise type(error)(error.fact, hint) from error
    except KeyboardInterrupt:
        writer.update_manifest(failure=Failure(step=steps.step, error="interrupted", exit_code=130))
        _publish(partial, folder)
        raise
    _publish(partial, folder)
    return open_recording(folder)


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
    if not request.force:
        raise UsageError(f"{folder} exists", "replace it with --force, or choose another place with -o")
    return folder


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

    def run(self, request: Request) -> None:
        lowered = msgspec.convert(
            self._job(
                "lower:lower",
                LowerJob(
                    folder=self._folder,
                    target=request.target,
                    precision=request.precision,
                    soc=request.soc,
                    sdk=self.sdk,
                ),
            ),
            LowerResult,
        )
        crash = self._measure(lowered)
        failed_step = self.step
        self._note({"step": "compare"})
        self.writer.comparison(compare(open_recording(self.writer.folder)))
        if crash is not None:
            self.step = failed_step
            raise crash

    @property
    def _folder(self) -> str:
        return str(self.writer.folder.absolute())

    def _measure(self, lowered: LowerResult) -> QnndbgError | None:
        """Run what can be run; gives the first failure.

        A step that kills its worker costs only itself: another worker goes on behind it.
        """
        steps = tuple(step for step in MEASURES if step != "htp-tapped" or lowered.tapped)
        first: QnndbgError | None = None
        while steps:
            try:
                self._job(
                    "measure:measure",
                    MeasureJob(folder=self._folder, sdk=self.sdk, steps=steps, samples=lowered.samples),
                )
                break
            except QnndbgError as error:
                first = first or error
                # A worker that dies before its first step would die again.
                steps = steps[steps.index(self.step) + 1 :] if self.step in steps else ()
        return first

    def _job(self, function: str, job: Any) -> object:
        payload: Mapping[str, object] = msgspec.to_builtins(job)
        name = function.partition(":")[0]
        return run_job(f"qnndbg.pipeline.{function}", payload, log=self.writer.log(name), on_event=self._note)

    def _note(self, event: dict[str, object]) -> None:
        self.step = str(event.get("step", self.step))
        self.on_event(event)
