"""Where a recording goes, and what becomes of it when its making fails."""

from __future__ import annotations

import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import qnndbg
from qnndbg.analyze.compare import compare
from qnndbg.errors import LoweringError, QnndbgError, RecordingError, UsageError
from qnndbg.execute.native_log import qnn_complaint
from qnndbg.model.recording import Environment, Failure, Manifest
from qnndbg.recording.place import SUFFIX, partial, with_suffix
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer

PACKAGES = ("torch", "executorch", "torchao", "onnxruntime-qnn", "numpy")


def free_place(folder: Path, *, force: bool) -> Path:
    """The recording's place, if nothing is lost there.

    Raises:
        UsageError: something else is there, or a complete recording that is not to be replaced.
    """
    if not folder.name:
        raise UsageError(f"{folder} is no name for a recording", "give one with -o NAME")
    folder = with_suffix(folder)
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link", "give the folder that it leads to")
    if not folder.exists():
        return folder
    if not (folder / "manifest.json").is_file():
        raise UsageError(f"{folder} exists and is no recording", "choose another place with -o")
    if not force and _is_complete(folder):
        raise UsageError(f"{folder} exists", "replace it with --force, or choose another place with -o")
    return folder


def begin(folder: Path, manifest: Manifest) -> Writer:
    """A fresh recording, still under the name under which it grows."""
    shutil.rmtree(partial(folder), ignore_errors=True)
    writer = Writer(partial(folder))
    writer.manifest(manifest)
    return writer


def publish(folder: Path) -> Recording:
    """Move a finished recording to its place; an older one there is removed only now."""
    if folder.exists():
        shutil.rmtree(folder)
    partial(folder).rename(folder)
    return open_recording(folder)


def keep(folder: Path, step: str, error: BaseException) -> BaseException:
    """Keep what was captured before a failure, and give the error that says where it is.

    A complete recording that the failed one was to replace stays as it is.
    """
    place = folder
    if folder.exists() and _is_complete(folder):
        place = folder.with_name(f"{folder.stem}-failed{SUFFIX}")
    writer = Writer(partial(folder))
    if not isinstance(error, QnndbgError):
        interrupted = isinstance(error, KeyboardInterrupt)
        what = "interrupted" if interrupted else f"{type(error).__name__}: {error}"
        _note(writer, step=step, error=what, exit_code=130)
        _move(writer.folder, place)
        return KeyboardInterrupt(f"what was captured: qnndbg show {place}") if interrupted else error
    fact, hint = error.fact, error.hint
    if isinstance(error, LoweringError) and (said := qnn_complaint(writer.log("worker"))):
        fact = f"{fact}; QNN says: {said}"
        hint = hint or ("keep the op it names off the HTP: skip_node_id_set" if '"' in said else "")
    hint = hint or "logs/worker.log of the recording says more"
    # Inside the recording, paths start at its folder.
    inner = hint.replace(f"{writer.folder.absolute()}/", "").replace(f"{writer.folder}/", "")
    _note(writer, step=step, error=fact, hint=inner, exit_code=error.exit_code)
    _move(writer.folder, place)
    hint = hint.replace(str(writer.folder.absolute()), str(place)).replace(str(writer.folder), str(place))
    where = f"what was captured: qnndbg show {place}"
    return type(error)(fact, f"{hint}; {where}")


def _note(writer: Writer, **failure: Any) -> None:
    """Note a failure, with what the worker said of where it happened; and the verdict on it."""
    known = writer.read_manifest().failure or Failure(step="", error="")
    writer.update_manifest(failure=replace(known, **failure))
    writer.comparison(compare(open_recording(writer.folder)))


def _move(source: Path, place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    source.rename(place)


def _is_complete(folder: Path) -> bool:
    """Whether there is something to lose: a recording that failed is replaced by the next try."""
    try:
        return open_recording(folder).manifest.complete
    except RecordingError:
        return True


def shown_target(target: str) -> str:
    """The target without directories: a path of this machine has no place in what may be sent."""
    place, colon, name = target.rpartition(":")
    if not colon:
        return Path(target).name
    return f"{Path(place).name}:{name}" if place.endswith(".py") else target


def environment(sdk: str) -> Environment:
    """What is installed here.

    Args:
        sdk: how the SDK was found.
    """
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
        sdk=sdk,
    )
