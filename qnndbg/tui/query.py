"""The language that filters layers: words that must all hold, as in ``op:conv local>4lsb module:enc*``.

A word is a text that one of the layer's names contains, ``field:pattern``, or a comparison
``field>number`` with ``<``, ``>``, ``<=``, ``>=`` or ``=``. A pattern with ``*`` or ``?`` must match the
whole, any other one be contained; ``!`` in front of a word turns it round.
Owns the grammar; refuses what it does not know, by name.
"""

from __future__ import annotations

import fnmatch
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qnndbg.model.result import ErrorMetrics, LayerResult


class QueryError(ValueError):
    """A filter that cannot be understood; its text says which part."""


Test = Callable[[LayerResult], bool]
COMPARISON = re.compile(r"(!?)(\w+)(<=|>=|<|>|=)(.*)")
NUMBER = re.compile(r"([-+−]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf|∞)(lsb|ulp|db|%|x|×)?", re.IGNORECASE)
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "=": operator.eq,
}
TEXTS: dict[str, Callable[[LayerResult], str]] = {
    "op": lambda layer: f"{layer.op} {layer.qnn_op}",
    "module": lambda layer: layer.module,
    "tensor": lambda layer: layer.tensor,
    "dtype": lambda layer: f"{layer.reference_dtype} {layer.dtype}",
    "source": lambda layer: layer.source,
    "pass": lambda layer: layer.created_by,
    "method": lambda layer: layer.method,
    "reason": lambda layer: layer.reason,
    "given": lambda layer: layer.given,
}
WHOLE = {
    "op": lambda layer: (layer.op, layer.qnn_op),
    "dtype": lambda layer: (layer.reference_dtype, layer.dtype),
}
"""Fields of two names, each of which a pattern may match as a whole."""
FLAGS = ("source", "victim", "compared", "fused")
ERRORS = {"local": "local", "acc": "accumulated", "accumulated": "accumulated"}
NUMBERS = ("floor", "effect", "partition", "elements", "sat")


@dataclass(frozen=True, slots=True)
class Known:
    """What a filter needs beyond the layer."""

    made: Callable[[LayerResult], bool]
    inherited: Callable[[LayerResult], bool]
    saturation: Callable[[LayerResult], float | None]
    given: frozenset[str]
    """Reasons of tensors that were not to be compared."""


def parse(text: str, known: Known) -> Test:
    """Make the test of a filter; an empty one lets all through.

    Raises:
        QueryError: a part of it is not understood.
    """
    tests = [_word(word, known) for word in text.split()]
    return lambda layer: all(test(layer) for test in tests)


def _word(word: str, known: Known) -> Test:
    if word.startswith("!") and len(word) > 1:
        test = _word(word[1:], known)
        return lambda layer: not test(layer)
    if found := COMPARISON.fullmatch(word):
        return _comparison(*found.groups()[1:])(known)
    name, colon, pattern = word.partition(":")
    if colon and name == "is":
        return _flag(pattern, known)
    if colon and name == "compared":
        return _compared(pattern, known)
    if colon and name in TEXTS:
        return _text(name, pattern.lower())
    if colon and re.fullmatch(r"[a-z]+", name):
        raise QueryError(f"no field {name}; there are {', '.join([*TEXTS, 'is', 'compared'])}")
    lowered = word.lower()
    everything = [TEXTS[field] for field in ("tensor", "op", "module", "source", "pass")]
    return lambda layer: any(lowered in text(layer).lower() for text in everything)


def _text(name: str, pattern: str) -> Test:
    text = TEXTS[name]
    if not set(pattern) & set("*?"):
        return lambda layer: pattern in text(layer).lower()
    whole = WHOLE.get(name, lambda layer: (text(layer),))
    return lambda layer: any(fnmatch.fnmatchcase(part.lower(), pattern) for part in whole(layer))


def _flag(name: str, known: Known) -> Test:
    tests: dict[str, Test] = {
        "source": known.made,
        "victim": known.inherited,
        "compared": lambda layer: not layer.reason,
        "fused": lambda layer: layer.fused,
    }
    if name not in tests:
        raise QueryError(f"no state {name}; there are {', '.join(FLAGS)}")
    return tests[name]


def _compared(word: str, known: Known) -> Test:
    tests: dict[str, Test] = {
        "yes": lambda layer: not layer.reason,
        "no": lambda layer: bool(layer.reason) and layer.reason not in known.given,
        "given": lambda layer: layer.reason in known.given,
    }
    if word not in tests:
        raise QueryError(f"compared is {', '.join(tests)}")
    return tests[word]


def _comparison(field: str, sign: str, text: str) -> Callable[[Known], Test]:
    found = NUMBER.fullmatch(text)
    if found is None:
        raise QueryError(f"{text or 'nothing'} is no number; write {field}{sign}4, 4lsb, 40db or 10%")
    digits, unit = found.groups()
    value = math.inf if digits.lower() in {"inf", "∞"} else float(digits.replace("−", "-"))
    unit = (unit or "").lower()
    compare = OPERATORS[sign]

    def bind(known: Known) -> Test:
        number = _number(field, unit, known)

        def test(layer: LayerResult) -> bool:
            have = number(layer)
            return have is not None and compare(have, value)

        return test

    return bind


def _number(field: str, unit: str, known: Known) -> Callable[[LayerResult], float | None]:
    if field in ERRORS:
        side = ERRORS[field]
        if unit in {"x", "×"}:
            return (lambda layer: layer.excess) if side == "local" else (lambda layer: layer.inherited)
        return lambda layer: steps_of(getattr(layer, side), unit)
    plain: dict[str, Callable[[LayerResult], float | None]] = {
        "floor": lambda layer: layer.excess,
        "effect": lambda layer: None if layer.effect is None else 100 * layer.effect,
        "partition": lambda layer: layer.partition,
        "elements": lambda layer: math.prod(layer.shape),
        "sat": lambda layer: None if (share := known.saturation(layer)) is None else 100 * share,
    }
    if field not in plain:
        raise QueryError(f"no number {field}; there are {', '.join([*ERRORS, *NUMBERS])}")
    return plain[field]


def without_unit(text: str, layers: Sequence[LayerResult]) -> str:
    """How many compared layers a filter cannot let through, as they have no such steps; empty if none."""
    for word in text.split():
        found = COMPARISON.fullmatch(word)
        number = NUMBER.fullmatch(found[4]) if found is not None and found[2] in ERRORS else None
        unit = "" if number is None else (number[2] or "").lower()
        if found is None or unit not in {"lsb", "ulp"}:
            continue
        errors = [getattr(layer, ERRORS[found[2]]) for layer in layers if not layer.reason]
        count = sum(error is not None and steps_of(error, unit) is None for error in errors)
        if count:
            return f"{count} have no {unit.upper()}: try {found[2]}<40db"
    return ""


def steps_of(error: ErrorMetrics | None, unit: str = "") -> float | None:
    """The size of an error: its SQNR in dB, else its largest element in steps of either kind."""
    if error is None:
        return None
    if unit == "db":
        return None if not error.elements else error.sqnr_db
    if error.nonfinite:
        return math.inf
    if unit == "ulp":
        return error.max_ulp
    if unit == "lsb":
        return error.max_lsb
    return error.max_lsb if error.max_lsb is not None else error.max_ulp
