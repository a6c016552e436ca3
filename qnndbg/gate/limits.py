"""Which limit of a policy holds for a layer or an output; the most particular entry wins, then the last."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from qnndbg.gate.policy import Policy
from qnndbg.model.result import LayerResult


class Limit(NamedTuple):
    """A number, and the entry of the policy that says it."""

    value: float
    said_by: str


class OutputLimits(NamedTuple):
    """Those of one output."""

    drop_db: Limit
    sqnr_db: Limit | None


def layer_limit(policy: Policy, layer: LayerResult) -> Limit:
    """The excess that a layer may have: that of its module, else of its op, else the default."""
    for table, entries, name in (("module", policy.module, layer.module), ("op", policy.op, layer.op)):
        for entry in reversed(entries):
            if matches(entry.match, name):
                return Limit(entry.excess, f"{table} {entry.match}")
    return Limit(policy.limits.excess, "limits.excess")


def output_limits(policy: Policy, method: str, index: int) -> OutputLimits:
    """The limits of an output: its own where it has them, else the defaults."""
    least = policy.limits.sqnr_db
    drop = Limit(policy.limits.drop_db, "limits.drop_db")
    sqnr = None if least is None else Limit(least, "limits.sqnr_db")
    for entry in policy.output:
        if (entry.method, entry.index) != (method, index):
            continue
        name = f"output {index}" if method == "forward" else f"output {index} of {method}"
        drop = drop if entry.drop_db is None else Limit(entry.drop_db, f"{name} drop_db")
        sqnr = sqnr if entry.sqnr_db is None else Limit(entry.sqnr_db, f"{name} sqnr_db")
    return OutputLimits(drop, sqnr)


def matches(glob: str, *names: str) -> bool:
    """Whether a glob fits one of the names; an empty name is none."""
    return any(fnmatchcase(name, glob) for name in names if name)
