"""JUnit XML: an output or a group of layers is a test case, so that CI shows which one fails.

``junit_xml`` writes any suites; ``junit_suites`` makes those of a recording. There is no time in it, since a
recording says nothing of how long its comparison took.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from xml.etree import ElementTree

from qnndbg.analyze.phrases import decibels, output_name
from qnndbg.analyze.verdict import Evidence, empty_comparison, faults
from qnndbg.model.recording import Manifest
from qnndbg.model.result import Comparison, Finding, LayerResult, Rung
from qnndbg.report.ladder import by_output
from qnndbg.report.layers import held_as_given

ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML may hold."""
NO_MODULE = "(no module)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test case."""

    classname: str
    name: str
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    message: str = ""
    """One line; empty if it passed."""
    text: str = ""
    """What the failure rests on."""
    output: str = ""
    """What is worth knowing of it anyhow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Test cases that belong together."""

    name: str
    cases: tuple[Case, ...]
    properties: tuple[tuple[str, str], ...] = ()


def junit_report(manifest: Manifest, comparison: Comparison | None) -> str:
    """What a recording says, as JUnit XML."""
    return junit_xml(f"qnndbg {manifest.target}", junit_suites(manifest, comparison))


def junit_suites(manifest: Manifest, comparison: Comparison | None) -> tuple[Suite, ...]:
    """The suites of a recording: the verdict, the outputs, the layers by module.

    Args:
        manifest: the recording's front page.
        comparison: None if the recording did not get that far.
    """
    answer = comparison or empty_comparison()
    about = (("precision", manifest.precision), ("soc", manifest.soc), ("target", manifest.target))
    suites = [
        Suite(name="recording", cases=tuple(_recording(manifest, answer)), properties=about),
        Suite(name="outputs", cases=tuple(_outputs(manifest, answer))),
        Suite(name="layers", cases=tuple(_modules(answer))),
    ]
    return tuple(suite for suite in suites if suite.cases)


def junit_xml(name: str, suites: Sequence[Suite]) -> str:
    """Suites as JUnit XML.

    Args:
        name: of them all.
        suites: in the order in which they are written.
    """
    root = ElementTree.Element("testsuites", {"name": _legal(name), **_counts(suites)})
    for suite in suites:
        _add_suite(root, suite)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _counts(suites: Iterable[Suite], *, skipped: bool = False) -> dict[str, str]:
    outcomes = [case.outcome for suite in suites for case in suite.cases]
    counts = {
        "tests": len(outcomes),
        "failures": outcomes.count("failure"),
        "errors": outcomes.count("error"),
    }
    if skipped:
        counts["skipped"] = outcomes.count("skipped")
    return {key: str(count) for key, count in counts.items()}


def _add_suite(root: ElementTree.Element, suite: Suite) -> None:
    counts = _counts([suite], skipped=True)
    element = ElementTree.SubElement(root, "testsuite", {"name": _legal(suite.name), **counts})
    if suite.properties:
        properties = ElementTree.SubElement(element, "properties")
        for key, value in suite.properties:
            ElementTree.SubElement(properties, "property", {"name": _legal(key), "value": _legal(value)})
    for case in suite.cases:
        attributes = {"name": _legal(case.name), "classname": _legal(case.classname)}
        child = ElementTree.SubElement(element, "testcase", attributes)
        if case.outcome == "skipped":
            ElementTree.SubElement(child, "skipped", {"message": _legal(case.message)})
        elif case.outcome != "passed":
            attributes = {"message": _legal(case.message), "type": case.outcome}
            ElementTree.SubElement(child, case.outcome, attributes).text = _legal(case.text or case.message)
        if case.output:
            ElementTree.SubElement(child, "system-out").text = _legal(case.output)


def _legal(text: str) -> str:
    return ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)


def _recording(manifest: Manifest, answer: Comparison) -> Iterator[Case]:
    """That it came to its end, what the verdict is, and that something was compared."""
    failure, verdict, coverage = manifest.failure, answer.verdict, answer.coverage
    if failure is not None:
        text = "\n".join(part for part in (failure.error, failure.hint) if part)
        message = f"{failure.step} failed: {failure.error}"
        yield Case(classname="recording", name="completes", outcome="error", message=message, text=text)
    else:
        yield Case(classname="recording", name="completes")
    if verdict.kind == "clean":
        yield Case(classname="recording", name="verdict", output=verdict.text)
    else:
        errors = [told(found) for found in answer.findings if found.severity == "error"]
        text = "\n\n".join([f"{verdict.text}\n{verdict.next_step}", *errors])
        message = verdict.text
        yield Case(classname="recording", name="verdict", outcome="failure", message=message, text=text)
    counted = f"{coverage.compared} of {coverage.total} QNN tensors compared"
    reasons = [*held_as_given(coverage)]
    reasons += [f"{count} {reason}" for reason, count in sorted(coverage.reasons.items())]
    if coverage.compared:
        yield Case(classname="recording", name="coverage", output="\n".join([counted, *reasons]))
    else:
        text = "\n".join([counted, *reasons])
        yield Case(classname="recording", name="coverage", outcome="failure", message=counted, text=text)


def _outputs(manifest: Manifest, answer: Comparison) -> Iterator[Case]:
    """One case an output; it fails if a step makes it wrong."""
    evidence = Evidence(
        ladder=answer.ladder,
        layers=answer.layers,
        coverage=answer.coverage,
        precision=manifest.precision,
        sources=answer.sources,
    )
    wrong = faults(evidence)
    for (method, sample, output), rungs in by_output(answer.ladder).items():
        steps = sorted(name for name, *of in wrong if tuple(of) == (method, sample, output))
        final = rungs[-1]
        case = Case(classname=f"outputs.{method}", name=f"sample {sample} output {output}")
        if steps:
            message = f"{output_name(final)} is made wrong by: {', '.join(steps)}"
            yield replace(case, outcome="failure", message=message, text=_climbed(rungs))
        elif final.against_eager is None:
            yield replace(case, outcome="skipped", message=final.note or "not compared")
        else:
            yield replace(case, output=_climbed(rungs))


def _climbed(rungs: Iterable[Rung]) -> str:
    """The rungs of an output, a line each."""
    return "\n".join(
        f"{rung.name}: {decibels(rung.against_eager)} against eager{f' ({rung.note})' if rung.note else ''}"
        for rung in rungs
    )


def _modules(answer: Comparison) -> Iterator[Case]:
    """One case a module; it fails if an error is found at one of its layers."""
    groups: dict[tuple[str, str], list[LayerResult]] = {}
    for layer in answer.layers:
        groups.setdefault((layer.method, layer.module), []).append(layer)
    for (method, module), layers in sorted(groups.items()):
        case = Case(classname=f"layers.{method}", name=module or NO_MODULE)
        compared = [layer for layer in layers if not layer.reason]
        found = [f for f in answer.findings if f.severity == "error" and _is_at(f, method, module, layers)]
        if found:
            text = "\n\n".join(map(told, found))
            yield replace(case, outcome="failure", message=found[0].message, text=text)
        elif not compared:
            yield replace(case, outcome="skipped", message=", ".join(sorted({la.reason for la in layers})))
        else:
            yield replace(case, output=f"{len(compared)} of {len(layers)} QNN tensors compared")


def _is_at(found: Finding, method: str, module: str, layers: Iterable[LayerResult]) -> bool:
    """Whether a finding is about a module: one of its tensors, or the module by name."""
    named = bool(module) and found.module == module
    return found.method == method and (named or any(found.where == layer.tensor for layer in layers))


def told(found: Finding) -> str:
    """A finding in full, a line each for the fact, the evidence, the place and what helps."""
    where = ", ".join(part for part in (found.where, found.module, found.source) if part)
    lines = (f"{found.rule}: {found.message}", found.evidence, where and f"at {where}", found.help)
    return "\n".join(line for line in lines if line)
