"""What is right: the class of a fault and who did it, and when a verdict says the same.

The rules, of which one of a list must hold; an answer without a list asks for no culprit:

==================  ==============================================================================
``op:NAME``         the verdict's op is ``aten.NAME.*``; of several ops, one of them
``pass:NAME``       the culprit is that pass
``input``           the culprit is a graph input
``constant``        the culprit is a constant, such as a weight
``output:N``        the culprit is that output of the program
``stage``           a stage, a step or an op is named at which the lowering failed
``names:TEXT``      the verdict's words have that text in them
==================  ==============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from qnndbg.model.result import Comparison, Verdict, VerdictKind


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The known answer of a case."""

    kinds: tuple[VerdictKind, ...]
    """The class first; the others are as right."""
    culprits: tuple[str, ...] = ()
    """Rules of which one must hold."""
    touched: tuple[str, ...] = ()
    """Further rules of which one must hold, such as the op that a pass touched."""
    note: str = ""
    """What was done, for who reads a wrong verdict."""


def class_is_right(answer: Answer, verdict: Verdict) -> bool:
    """Whether the verdict has the right class."""
    return verdict.kind in answer.kinds


def culprit_is_right(answer: Answer, comparison: Comparison) -> bool:
    """Whether the verdict names who did it; true where nobody has to be named."""
    return all(
        any(_holds(rule, comparison) for rule in rules)
        for rules in (answer.culprits, answer.touched)
        if rules
    )


def op_is_right(answer: Answer, ops: Sequence[str]) -> bool:
    """Whether an op of these is the culprit, for rankings that know nothing but ops."""
    wanted = {rule.removeprefix("op:") for rule in answer.culprits if rule.startswith("op:")}
    return bool(wanted & {short(op) for op in ops})


def short(op: str) -> str:
    """``gelu`` of ``aten.gelu.default``, and of a node ``aten_gelu_default_1``."""
    if found := re.fullmatch(
        r"(?:aten|dim_order_ops)_(\w+?)_(?:default|[Tt]ensor|[Ss]calar|dim|int)(?:_\d+)?", op
    ):
        return found[1]
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


def _holds(rule: str, comparison: Comparison) -> bool:
    name, _, value = rule.partition(":")
    verdict = comparison.verdict
    match name:
        case "op":
            return value in {short(op) for op in verdict.op.split(", ")}
        case "pass":
            return verdict.culprit == value
        case "input" | "constant":
            return _kind_of(comparison) == name
        case "output":
            return verdict.culprit == f"output {value}"
        case "stage":
            return verdict.kind == "lowering" and bool(verdict.culprit)
        case "names":
            return value in verdict.text
    raise ValueError(f"there is no rule {rule}")


def _kind_of(comparison: Comparison) -> str:
    """What the culprit is in its graph."""
    verdict = comparison.verdict
    if verdict.kind == "input":
        return "input"
    return next((s.kind for s in comparison.sources if s.name == verdict.culprit), "")
