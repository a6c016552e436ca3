"""Makes recordings: starts a worker for a target or a script, and keeps what it leaves.

Runs in the user's process and imports neither torch nor ExecuTorch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.errors import QnndbgError, RecordingError, UsageError
from qnndbg.execute.sdk import Sdk, find_sdk
from qnndbg.execute.worker import run_job
from qnndbg.model.recording import Manifest
from qnndbg.pipeline import publish
from qnndbg.pipeline.jobs import Job, Task
from qnndbg.recording.place import SUFFIX, numbered, partial
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer, file_name

OnEvent = Callable[[dict[str, object]], None]
FORMS = "a target is SCRIPT.py, file.py:factory, package.module:factory or example:NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to record, and how."""

    target: str
    arguments: tuple[str, ...] | None = None
    """Of a script; None if the target is a factory."""
    precision: str = "fp16"
    soc: str = "SM8650"
    output: Path | None = None
    """The recording's folder; by default made of target and precision, in the current folder."""
    sdk: str | None = None
    force: bool = False
    """Replace a complete recording that is already there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a script left."""

    recordings: tuple[Recording, ...]
    exit_code: int
    """The script's own."""


def record(request: Request, on_event: OnEvent) -> Recording:
    """Record a target, and compare what the HTP and the CPU make of it.

    Args:
        request: what to record.
        on_event: called with each event of the worker: a ``step`` that begins or a ``pass`` that ran.

    Raises:
        QnndbgError: a step failed. What was captured until then is a recording all the same, under its
            final name, and its manifest says what happened.
    """
    check_target(request.target)
    making = _Making(request, on_event)
    try:
        making.run()
        failure = making.failures.get(making.folder)
        _compare(making.folder)
        if failure is not None:
            making.step, error = failure
            raise error
    except UsageError:
        shutil.rmtree(partial(making.folder))
        raise
    except (QnndbgError, KeyboardInterrupt) as error:
        raise publish.keep(making.folder, making.step, error) from error
    Writer(partial(making.folder)).update_manifest(complete=True)
    return publish.publish(making.folder)


def record_script(request: Request, on_event: OnEvent) -> Outcome:
    """Run a script, and record every QNN lowering that happens in it.

    Args:
        request: the script, its arguments, and where the first recording goes.
        on_event: as of :func:`record`.

    Raises:
        QnndbgError: the script's process died; a failure of the script itself is its exit code.
    """
    if not Path(request.target).is_file():
        raise UsageError(f"there is no file {request.target}", "give its path from the current folder")
    making = _Making(request, on_event)
    try:
        making.run()
    except (QnndbgError, KeyboardInterrupt) as error:
        # Each lowering that had begun is kept; the error names the last one, where it happened.
        begun = [folder for folder in making.places() if partial(folder).exists()]
        if not begun:
            raise _vanished(making.folder) from error
        kept = [publish.keep(folder, making.step, error, log_of=making.folder) for folder in begun]
        raise kept[-1] from error
    done = tuple(_published(making, folder) for folder in making.folders)
    if not done:
        shutil.rmtree(partial(making.folder))
    return Outcome(recordings=done, exit_code=making.exit_code)


def _vanished(folder: Path) -> RecordingError:
    return RecordingError(
        f"{partial(folder)} vanished while the recording was written to it",
        "have nothing remove it, and record again",
    )


def _published(making: _Making, folder: Path) -> Recording:
    failure = making.failures.get(folder)
    manifest = Writer(partial(folder)).read_manifest()
    if manifest.failure is None:
        _compare(folder)
        if failure is None:
            Writer(partial(folder)).update_manifest(complete=True)
    if failure is not None:
        publish.keep(folder, *failure)
        return open_recording(folder)
    return publish.publish(folder)


def _compare(folder: Path) -> None:
    Writer(partial(folder)).comparison(compare(open_recording(partial(folder))))


def check_target(target: str) -> None:
    """Refuse what cannot be a factory, before anything is started.

    Raises:
        UsageError: with the forms that it may have.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"{target!r} is not a target", FORMS)
    if place.endswith(".py") and not Path(place).is_file():
        raise UsageError(f"there is no file {place}", "give its path from the current folder")


def default_output(request: Request) -> Path:
    """The folder that a recording gets if none is asked for."""
    if request.arguments is not None:
        return Path(f"{Path(request.target).stem}{SUFFIX}")
    return Path(f"{file_name(request.target.rpartition(':')[2])}-{request.precision}{SUFFIX}")


@dataclass(slots=True)
class _Making:
    """A request at work: which recordings there are, and how far they are."""

    request: Request
    on_event: OnEvent
    folder: Path = field(init=False)
    writer: Writer = field(init=False)
    job: Job = field(init=False)
    folders: list[Path] = field(default_factory=list)
    """The places of a script's recordings."""
    failures: dict[Path, tuple[str, QnndbgError]] = field(default_factory=dict)
    """Place to the first measurement that failed, and how."""
    step: str = ""
    exit_code: int = 0
    tasks: tuple[Task, ...] | None = None
    current: int = -1

    def __post_init__(self) -> None:
        request = self.request
        self.folder = publish.free_place(request.output or default_output(request), force=request.force)
        sdk = find_sdk(request.sdk)
        self.writer = publish.begin(self.folder, self._manifest(sdk))
        self.job = self._job(sdk, self.writer)

    def run(self) -> None:
        """Do what can be done; a measurement that kills its worker costs only itself."""
        writer, job = self.writer, self.job
        while True:
            try:
                run_job(
                    "qnndbg.pipeline.work:work",
                    msgspec.to_builtins(job),
                    log=writer.log("worker"),
                    on_event=self._note,
                    terminal=job.arguments is not None and job.tasks is None,
                )
                return
            except QnndbgError as error:
                # Without a lowering there is nothing to measure, and what dies early would die again.
                if self.tasks is None or self.current < 0:
                    raise
                self._fail(error)
                job = replace(job, tasks=self.tasks[self.current + 1 :])
                self.tasks, self.current = job.tasks, -1
                if not job.tasks:
                    return

    def places(self) -> Iterator[Path]:
        """The places of the recordings that a script may have begun."""
        number = 0
        while number == 0 or partial(numbered(self.folder, number)).exists():
            yield numbered(self.folder, number)
            number += 1

    def _job(self, sdk: Sdk, writer: Writer) -> Job:
        return Job(
            folder=str(self.folder.absolute()),
            target=self.request.target,
            arguments=self.request.arguments,
            precision=self.request.precision,
            soc=self.request.soc,
            sdk=str(sdk.root) if sdk.source != "pip" else "",
            log=str(writer.log("worker").absolute()),
        )

    def _manifest(self, sdk: Sdk) -> Manifest:
        named = self.request.arguments is None  # a script says itself what it lowers to
        return Manifest(
            target=publish.shown_target(self.request.target),
            arguments=tuple(map(publish.shown_argument, self.request.arguments or ())),
            precision=self.request.precision if named else "",
            soc=self.request.soc if named else "",
            environment=publish.environment(sdk.source),
        )

    def _fail(self, error: QnndbgError) -> None:
        assert self.tasks is not None
        grows = Path(self.tasks[self.current].folder)
        for folder in (self.folder, *self.folders):
            if partial(folder).absolute() == grows:
                self.failures.setdefault(folder, (self.step, error))

    def _note(self, event: dict[str, object]) -> None:
        self.step = str(event.get("step", self.step))
        if "tasks" in event:
            self.tasks = msgspec.convert(event["tasks"], tuple[Task, ...])
        if isinstance(number := event.get("task"), int):
            self.current = number
        if isinstance(place := event.get("recording"), str):
            self.folders.append(self.folder.parent / Path(place).name)
        if isinstance(code := event.get("exit"), int):
            self.exit_code = code
        self.on_event(event)
