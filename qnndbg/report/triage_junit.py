"""A check as JUnit XML: an output or a module is a test case, which fails as the policy says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qnndbg.model.result import Comparison
from qnndbg.model.triage import Judgement, Triage
from qnndbg.report.diff_words import page_words
from qnndbg.report.junit import NO_MODULE, Case, Suite, junit_xml
from qnndbg.report.triage_text import cause, headline, judged

Key = tuple[str, str]
"""Method, and a module or an output."""


def triage_junit(triage: Triage, comparison: Comparison | None) -> str:
    """What was judged, as JUnit XML.

    Args:
        triage: of the check.
        comparison: of the recording: its outputs and modules, those that are as they were too.
    """
    pages = [("recording", triage.recording), ("baseline", triage.baseline)]
    outputs: dict[Key, bool] = {}
    for rung in comparison.ladder if comparison else ():
        key = rung.method, f"output {rung.output}"
        outputs[key] = rung.against_eager is not None or outputs.get(key, False)
    modules: dict[Key, bool] = {}
    for layer in comparison.layers if comparison else ():
        key = layer.method, layer.module
        modules[key] = not layer.reason or modules.get(key, False)
    suites = (
        Suite(
            name="check",
            cases=tuple(_whole(triage)),
            properties=tuple((name, page_words(page)) for name, page in pages if page),
        ),
        Suite(name="outputs", cases=tuple(_cases("outputs", outputs, _by(triage, "output")))),
        Suite(name="layers", cases=tuple(_cases("layers", modules, _by(triage, "layer", "dtype")))),
    )
    name = f"qnndbg check {triage.recording.target}"
    return junit_xml(name, tuple(suite for suite in suites if suite.cases))


def _whole(triage: Triage) -> Iterator[Case]:
    """Accuracy, coverage and the ops on the CPU, which are of the recording as a whole."""
    yield Case(classname="check", name="policy", output="\n".join([headline(triage), *triage.notes]))
    for subject in ("accuracy", "coverage", "fallback"):
        found = [one for one in triage.judgements if one.subject == subject]
        yield _case(Case(classname="check", name=subject), found)


def _by(triage: Triage, *subjects: str) -> dict[Key, list[Judgement]]:
    found: dict[Key, list[Judgement]] = {}
    for one in triage.judgements:
        if one.subject in subjects:
            key = (one.method, one.where if one.subject == "output" else one.module)
            found.setdefault(key, []).append(one)
    return found


def _cases(suite: str, known: dict[Key, bool], found: dict[Key, list[Judgement]]) -> Iterator[Case]:
    for method, name in sorted({*known, *found}):
        case = Case(classname=f"{suite}.{method}", name=name or NO_MODULE)
        if known.get((method, name), True) or (method, name) in found:
            yield _case(case, found.get((method, name), []))
        else:
            yield replace(case, outcome="skipped", message="not compared")


def _case(case: Case, found: list[Judgement]) -> Case:
    """Failed by what fails; what is waived, fixed or new is worth knowing."""
    bad, rest = ([one for one in found if one.fails is fails] for fails in (True, False))
    output = "\n".join(f"{one.status}: {_told(one)}" for one in rest)
    if not bad:
        return replace(case, output=output)
    more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
    text = "\n".join(map(_told, bad))
    return replace(case, outcome="failure", message=f"{judged(bad[0])}{more}", text=text, output=output)


def _told(one: Judgement) -> str:
    return "; ".join(part for part in (judged(one), cause(one), one.waiver) if part)
