"""A difference as JUnit XML: an output or a module is a test case, which fails where it got worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from qnndbg.model.diff import LayerDiff
from qnndbg.report import units
from qnndbg.report.diff_layers import ORDER
from qnndbg.report.diff_pair import OutputPair, Pair, module_pairs, output_pairs, side_of
from qnndbg.report.diff_words import change_of, change_text, counted, headline, page_words
from qnndbg.report.junit import NO_MODULE, Case, Suite, junit_xml


def diff_junit(pair: Pair) -> str:
    """What differs, as JUnit XML; what is equal passes."""
    a, b = pair.diff.a, pair.diff.b
    suites = (
        Suite(
            name="recordings",
            cases=tuple(_recordings(pair)),
            properties=(("a", page_words(a)), ("b", page_words(b))),
        ),
        Suite(name="outputs", cases=tuple(map(_output, output_pairs(pair)))),
        Suite(name="layers", cases=tuple(_modules(pair))),
    )
    name = f"qnndbg diff {a.target} {b.target}"
    return junit_xml(name, tuple(suite for suite in suites if suite.cases))


def _recordings(pair: Pair) -> Iterator[Case]:
    """That B came to its end, and where the two part, which by itself is no failure."""
    complete = Case(classname="recordings", name="completes")
    if pair.diff.b.complete and not pair.diff.b.failure:
        yield complete
    else:
        yield replace(complete, outcome="error", message=f"B is not complete: {page_words(pair.diff.b)}")
    yield Case(classname="recordings", name="lowering", output=headline(pair.diff))


def _output(output: OutputPair) -> Case:
    case = Case(classname=f"outputs.{output.method}", name=f"output {output.output}")
    text = "\n".join(
        f"{rung.name}: {units.with_unit(rung.a)} in A, {units.with_unit(rung.b)} in B ({change_of(rung)})"
        for rung in output.rungs
        if rung.name != "eager"
    )
    at = f"{units.with_unit(output.last.a)} → {units.with_unit(output.last.b)} at {output.last.name}"
    if output.missing:
        return replace(case, outcome="failure", message=f"B has no number for it: {at}", text=text)
    if output.trend == "worse":
        return replace(case, outcome="failure", message=f"regressed: {at}", text=text)
    if output.last.b is None:
        return replace(case, outcome="skipped", message="not compared")
    return replace(case, output=text)


def _modules(pair: Pair) -> Iterator[Case]:
    for (method, module), compared, layers in module_pairs(pair):
        case = Case(classname=f"layers.{method}", name=module or NO_MODULE)
        bad = [layer for layer in layers if layer.status == "regressed"]
        told = counted(Counter(str(layer.status) for layer in layers), ORDER)
        if bad:
            first = side_of(bad[0]).tensor
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            message = f"regressed: {first}{more}"
            yield replace(case, outcome="failure", message=message, text="\n".join(map(_layer, bad)))
        elif not compared and not layers:
            yield replace(case, outcome="skipped", message="no layer of it was compared")
        else:
            yield replace(case, output=told or f"{compared} compared, of which none differs")


def _layer(layer: LayerDiff) -> str:
    side = side_of(layer)
    errors = [units.with_unit(one.local if one else None) for one in (layer.a, layer.b)]
    words = [f"{side.tensor}: local error {errors[0]} → {errors[1]}", *map(change_text, layer.changes)]
    return "; ".join([*words, *([f"at {side.source}"] if side.source else [])])
