"""Names of recordings: where one is kept, and where it grows until it is finished."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".qnndbg"


def with_suffix(folder: Path) -> Path:
    """The folder with the suffix that all recordings have."""
    return folder if folder.suffix == SUFFIX else folder.with_name(folder.name + SUFFIX)


def numbered(folder: Path, number: int) -> Path:
    """The place of one of several recordings of one run; the first has the plain name."""
    return folder if number == 0 else folder.with_name(f"{folder.stem}-{number + 1}{SUFFIX}")


def partial(folder: Path) -> Path:
    """Where the recording of that place grows until it is finished."""
    return folder.with_name(f".{folder.name}.partial")
