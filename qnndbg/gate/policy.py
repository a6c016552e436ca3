"""The policy: what ``qnndbg.toml`` may say. Strict, since a limit under a misspelt key would hold nothing."""

from __future__ import annotations

import datetime
import difflib
import math
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from qnndbg.analyze.causes import FLOOR_LIMIT
from qnndbg.errors import UsageError

POLICY_FILE = "qnndbg.toml"

AtLeastZero = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Words = Annotated[str, Meta(min_length=1)]


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file, in which unknown keys are refused."""


class Limits(_Table, frozen=True, kw_only=True):
    """What holds where nothing else is said."""

    excess: AtLeastZero = FLOOR_LIMIT
    """Local error of a layer over its noise floor, at most."""
    drop_db: AtLeastZero = 1.0
    """What an output's SQNR against eager may fall by from the baseline."""
    sqnr_db: float | None = None
    """SQNR of every output against eager, at least."""
    accuracy_drop: Share = 0.0
    """Share of the labelled samples that the HTP may get wrong and the baseline had right."""
    coverage: Share = 0.0
    """Share of the QNN tensors that must be compared."""


class OutputLimit(_Table, frozen=True, kw_only=True):
    """Limits of one output."""

    index: Annotated[int, Meta(ge=0)]
    method: str = "forward"
    drop_db: AtLeastZero | None = None
    sqnr_db: float | None = None


class LayerLimit(_Table, frozen=True, kw_only=True):
    """Limit of the layers whose op, or module path, matches."""

    match: Words
    """A glob."""
    excess: AtLeastZero


class AllowedFallback(_Table, frozen=True, kw_only=True):
    """An op that may stay on the CPU."""

    match: Words
    """A glob for the op, or for the node."""
    reason: Words


class AllowedDtype(_Table, frozen=True, kw_only=True):
    """A change of dtype that is wanted."""

    match: Words
    """A glob for tensor, op or module path."""
    before: str = "*"
    now: str = "*"
    reason: Words


class Allow(_Table, frozen=True, kw_only=True):
    """Changes that are no regression."""

    fallback: tuple[AllowedFallback, ...] = ()
    dtype: tuple[AllowedDtype, ...] = ()


class Waiver(_Table, frozen=True, kw_only=True):
    """A regression that is let pass until a day."""

    match: Words
    """A glob for tensor, op, module path, or such as ``output 0``."""
    subject: Literal["", "output", "accuracy", "layer", "dtype", "fallback", "coverage"] = ""
    """Of one kind only; empty for all."""
    reason: Words
    expires: datetime.date
    """The last day on which it holds."""


class Policy(_Table, frozen=True, kw_only=True):
    """A whole policy; without a file, the defaults."""

    limits: Limits = Limits()
    output: tuple[OutputLimit, ...] = ()
    op: tuple[LayerLimit, ...] = ()
    module: tuple[LayerLimit, ...] = ()
    allow: Allow = Allow()
    waiver: tuple[Waiver, ...] = ()


_TABLES: dict[str, type[_Table]] = {
    "": Policy,
    "limits": Limits,
    "output": OutputLimit,
    "op": LayerLimit,
    "module": LayerLimit,
    "allow": Allow,
    "allow.fallback": AllowedFallback,
    "allow.dtype": AllowedDtype,
    "waiver": Waiver,
}
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`(?: - at `\$\.?(?P<path>.*)`)?")


def read_policy(path: Path, today: datetime.date) -> Policy:
    """Read a policy.

    Args:
        path: a TOML file.
        today: waivers that ended before are refused.

    Raises:
        UsageError: it is missing, holds what no policy holds, or a waiver has expired.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "give the path of a policy") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no TOML: it is not UTF-8", "save it as UTF-8") from error
    policy = parse_policy(text, path.name)
    for waiver in policy.waiver:
        if waiver.expires < today:
            raise UsageError(
                f"{path.name}: the waiver for {waiver.match} expired on {waiver.expires}: {waiver.reason}",
                "mend what it waives and take it out, or give it another day",
            )
    return policy


def parse_policy(text: str, name: str) -> Policy:
    """The policy that a text in TOML says.

    Args:
        text: the file.
        name: its name, for the message.

    Raises:
        UsageError: it is no TOML, or no policy.
    """
    try:
        return msgspec.convert(
            tomllib.loads(text, parse_float=_number), Policy, builtin_types=(datetime.date,)
        )
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name} is no TOML: {error}", "see docs/reference/policy.md") from error
    except msgspec.ValidationError as error:
        raise _refused(str(error), name) from error


def _number(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise UsageError("a policy holds nan, above and below which is nothing", "give a number")
    return number


def _refused(message: str, name: str) -> UsageError:
    found = _UNKNOWN.search(message)
    if not found:
        return UsageError(f"{name}: {_place(message)}", "see docs/reference/policy.md")
    key, table = found["key"], re.sub(r"\[.*?\]", "", found["path"] or "")
    known = _TABLES[table].__struct_fields__
    where = f"in {table}" if table else "at the top"
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known are: {', '.join(known)}"
    return UsageError(f"{name}: there is no key {key} {where}", hint)


def _place(message: str) -> str:
    """The library's message, with its place in the words of TOML."""
    what, _, place = message.partition(" - at `$.")
    return f"{place.rstrip('`')}: {what}" if place else what
