"""The arguments of a long command: what they are to begin with, and the command they make."""

from __future__ import annotations

import shlex
from pathlib import Path

from qnndbg.errors import UsageError
from qnndbg.model.recording import RunnerName
from qnndbg.tui.page import Page, free_path
from qnndbg.tui.places import OutputAt, PassAt
from qnndbg.tui.state import Session

SEARCHED: tuple[RunnerName, ...] = ("eager", "quantized", "export")
"""Whose results an output is held against, the first that was recorded."""


def words(verb: str, session: Session, page: Page, source: Path) -> str:
    """The arguments to begin with, to be changed by the user.

    Args:
        verb: ``record`` or ``bisect``.
        session: the recording that is looked at.
        page: what is under its cursor says which output and which method are meant.
        source: the folder of the model's source files.
    """
    found = _record(session, source) if verb == "record" else _bisect(session, page)
    return shlex.join(found)


def command(verb: str, text: str, session: Session) -> tuple[str, ...]:
    """The whole command of what was typed.

    Raises:
        UsageError: a quotation mark is open.
    """
    try:
        typed = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from error
    return (verb, *typed) if verb == "record" else (verb, str(session.recording.folder), *typed)


def _record(session: Session, source: Path) -> list[str]:
    manifest, folder = session.recording.manifest, session.recording.folder
    output = free_path(folder.with_name(f"{folder.stem.removesuffix('.baseline')}-again.qnndbg"))
    found = ["-o", str(output)]
    if manifest.precision and not _is_script(manifest.target):  # a script says itself what it lowers to
        found += ["--precision", manifest.precision, "--soc", manifest.soc]
    return [*found, _target(manifest.target, source), *manifest.arguments]


def _is_script(target: str) -> bool:
    return target.endswith(".py")


def _target(target: str, source: Path) -> str:
    """The target, whose folder the recording does not hold, with the folder where its file is now."""
    file, colon, factory = target.partition(":")
    found = source / file
    return f"{found}{colon}{factory}" if file.endswith(".py") and found.exists() else target


def _bisect(session: Session, page: Page) -> list[str]:
    line = page.sheet.line
    place = line.place if line is not None else None
    method, output, sample = session.main_method, 0, 0
    if isinstance(place, OutputAt):
        method, output, sample = place.method, place.output, place.sample
    elif isinstance(place, PassAt):
        method = session.passes[place.position].method or method
    found = ["--output", str(output)]
    found += ["--method", method] if method != "forward" else []
    found += ["--sample", str(sample)] if sample else []
    runners = [name for name in SEARCHED if session.recording.run(name, method, sample) is not None]
    return [*found, "--against", *(runners[:1] or SEARCHED[:1])]
