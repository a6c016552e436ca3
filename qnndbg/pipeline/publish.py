"""Where a recording goes, and what becomes of it when its making fails."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import shutil
import weakref
from importlib import metadata
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from msgspec.structs import replace

import qnndbg
from qnndbg.analyze.compare import compare
from qnndbg.errors import LoweringError, QnndbgError, RecordingError, UsageError
from qnndbg.execute.native_log import qnn_complaint
from qnndbg.model.recording import Environment, Failure, Manifest
from qnndbg.recording.place import SUFFIX, partial, with_suffix
from qnndbg.recording.store import Recording, open_recording
from qnndbg.recording.writer import Writer

SKIP = (
    "keep the op it names off the HTP: give its node's name to to_edge_transform_and_lower_to_qnn, "
    "in skip_node_id_set"
)
PACKAGES = ("torch", "executorch", "torchao", "onnxruntime-qnn", "numpy")


class Hints(NamedTuple):
    """What the caller is to change."""

    force: str = "--force"
    place: str = "-o"


COMMAND_LINE = Hints()


def free_place(folder: Path, *, force: bool, hints: Hints = COMMAND_LINE) -> Path:
    """The recording's place, if nothing is lost there.

    Args:
        folder: where it is to go.
        force: a complete recording that is there may be replaced.
        hints: how the caller says these two.

    Raises:
        UsageError: something else is there, or a complete recording that is not to be replaced.
    """
    if not folder.name:
        raise UsageError(f"{folder} is no name for a recording", f"give one with {hints.place}")
    folder = with_suffix(folder)
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link", "give the folder that it leads to")
    if not folder.exists():
        return folder
    if not (folder / "manifest.json").is_file():
        raise UsageError(f"{folder} exists and is no recording", f"choose another place with {hints.place}")
    if not force and _is_complete(folder):
        hint = f"replace it with {hints.force}, or choose another place with {hints.place}"
        raise UsageError(f"{folder} exists", hint)
    return folder


def begin(folder: Path, manifest: Manifest) -> Writer:
    """A fresh recording, still under the name under which it grows; locked as long as the writer lives.

    Raises:
        UsageError: another process is recording to the same place.
    """
    grows = partial(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    if grows.exists():
        left = _lock(grows)  # by a process that was killed, if this goes well
        if not grows.exists() or os.fstat(left).st_ino != grows.stat().st_ino:
            os.close(left)  # somebody else has cleared it away meanwhile, and begun
            raise _taken(grows)
        shutil.rmtree(grows)
        os.close(left)
    fresh = grows.with_name(f"{grows.name}.{os.getpid()}")
    Writer(fresh).manifest(manifest)  # a folder that is not empty is never renamed over
    descriptor = _lock(fresh)
    try:
        fresh.rename(grows)
    except OSError as error:  # of two that begin at once, one has just put its folder there
        os.close(descriptor)
        shutil.rmtree(fresh)
        raise _taken(grows) from error
    writer = Writer(grows)
    weakref.finalize(writer, os.close, descriptor)
    return writer


def _lock(folder: Path) -> int:
    """Lock a folder that grows until the descriptor is closed, at the latest when the process ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise _taken(folder) from error
    except OSError as error:
        # On a file system that locks no folders, as NFS does, nothing keeps two recordings apart.
        if error.errno not in {errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EINVAL}:
            os.close(descriptor)
            raise
    return descriptor


def _taken(grows: Path) -> UsageError:
    place = grows.with_name(grows.name.removeprefix(".").removesuffix(".partial"))
    return UsageError(
        f"another process is recording to {place}", "wait until it has ended, or choose another place"
    )


def publish(folder: Path) -> Recording:
    """Move a finished recording to its place; an older one there is removed only now."""
    if folder.exists():
        shutil.rmtree(folder)
    partial(folder).rename(folder)
    return open_recording(folder)


def keep(
    folder: Path,
    step: str,
    error: BaseException,
    *,
    reason: tuple[str, str] | None = None,
    log_of: Path | None = None,
) -> BaseException:
    """Keep what was captured before a failure, and give the error that says where it is.

    A complete recording that the failed one was to replace stays as it is.

    Args:
        folder: the recording's place.
        step: in which it failed.
        error: what came out of it.
        reason: fact and hint, where more is known than an exception of the caller's own says.
        log_of: the place of the recording that has the worker's log, if that is another one.
    """
    place, log_of = _failed_place(folder), log_of or folder
    if not isinstance(error, QnndbgError):
        return _keep_foreign(folder, step, error, reason)
    grown, moved = partial(log_of), _failed_place(log_of)
    fact, hint = error.fact, error.hint
    log = (grown if grown.exists() else moved) / "logs" / "worker.log"
    if isinstance(error, LoweringError) and (said := qnn_complaint(log)):
        fact = f"{fact}; QNN says: {said}"
        hint = hint or (SKIP if '"' in said else "")
    hint = hint or "logs/worker.log of the recording says more"
    # Inside a recording, paths start at its folder, or at its name if they lead to another one.
    inner = "" if log_of == folder else f"{moved.name}/"
    for path in (grown.absolute(), grown):
        hint = hint.replace(f"{path}/", "\0")
    failure = Failure(step=step, error=fact, hint=hint.replace("\0", inner), exit_code=error.exit_code)
    try:
        _note(Writer(partial(folder)), failure)
    finally:  # on a full disk, too
        _move(partial(folder), place)
    where = f"what was captured: qnndbg show {quote(str(place))}"
    return type(error)(fact, f"{hint.replace(chr(0), f'{moved}/')}; {where}")


def _keep_foreign(
    folder: Path, step: str, error: BaseException, reason: tuple[str, str] | None
) -> BaseException:
    """The same for an exception of the caller's own, which goes on as it is."""
    place = _failed_place(folder)
    if isinstance(error, KeyboardInterrupt):
        failure = Failure(step=step, error="interrupted", exit_code=130)
        error = KeyboardInterrupt(f"what was captured: qnndbg show {quote(str(place))}")
    elif reason is not None:
        failure = Failure(step=step, error=reason[0], hint=reason[1])
    else:
        failure = Failure(step=step, error=f"{type(error).__name__}: {error}")
    try:
        _note(Writer(partial(folder)), failure)
    finally:  # on a full disk, too
        _move(partial(folder), place)
    return error


def _failed_place(folder: Path) -> Path:
    """Where a recording that failed is kept."""
    if folder.exists() and _is_complete(folder):
        return folder.with_name(f"{folder.stem}-failed{SUFFIX}")
    return folder


def _note(writer: Writer, failure: Failure) -> None:
    """Note a failure, with what the worker said of where it happened; and the verdict on it."""
    known = writer.read_manifest().failure
    if known is not None:
        failure = replace(failure, stage=known.stage, node=known.node)
    writer.update_manifest(failure=failure)
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


def shown_argument(argument: str) -> str:
    """An argument of a script, such as ``--data=/home/me/set``, likewise; a relative path stays as it is."""
    option, equals, value = argument.rpartition("=")
    return f"{option}{equals}{Path(value).name}" if value.startswith(("/", "~")) else argument


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
