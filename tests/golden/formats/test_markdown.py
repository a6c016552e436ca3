"""The report for a pull request."""

from __future__ import annotations

from msgspec.structs import replace

from qnndbg.report.markdown import code, escaped, markdown_report
from tests.golden.formats import made
from tests.golden.formats.conftest import Golden

LIMIT = 65536
"""Characters that a comment on GitHub may have."""


def test_golden(exactly: Golden) -> None:
    exactly("made.md", markdown_report(made.MANIFEST, made.COMPARISON, made.PASSES))


def test_a_lowering_that_failed(exactly: Golden) -> None:
    exactly("failed.md", markdown_report(made.FAILED, None, ()))


def test_what_is_not_folded_away_is_short() -> None:
    open_part = markdown_report(made.MANIFEST, made.COMPARISON, made.PASSES).split("<details>")[0]
    assert len(open_part.splitlines()) < 35
    assert "12.5 dB against eager" in open_part


def test_a_large_recording_fits_into_a_comment() -> None:
    layers = tuple(replace(made.LAYERS[1], tensor=f"tensor_{i}" * 4) for i in range(5000))
    findings = tuple(replace(made.FINDINGS[0], where=f"t{i}", message="long " * 30) for i in range(500))
    ladder = tuple(replace(rung, output=i) for i in range(100) for rung in made.LADDER[:6])
    large = replace(made.COMPARISON, layers=layers, findings=findings, ladder=ladder)
    assert len(markdown_report(made.MANIFEST, large, made.PASSES)) < LIMIT


def test_text_makes_no_markup_no_mention_and_no_reference() -> None:
    assert escaped("<b>*x*</b> | `y`") == r"\<b\>\*x\*\</b\> \| \`y\`"
    assert escaped("red \x1b[31m\u202e") == r"red \[31m"
    assert code("red \x1b[31m\u202e") == "`red [31m`"
    assert escaped("@someone in #12") == "@<!-- -->someone in #<!-- -->12"
    assert escaped("- a\nb") == "<!-- -->- a b"


def test_code_holds_pipes_and_backticks() -> None:
    assert code("a|b") == "`a\u2223b`"
    assert code("a`b") == "`` a`b ``"
    assert code("") == ""
