"""What a policy may say, and how it is refused."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from qnndbg.errors import UsageError
from qnndbg.gate.limits import layer_limit, matches, output_limits
from qnndbg.gate.policy import Policy, parse_policy, read_policy
from tests.unit.test_diff_layers import EQUAL, layer

WHOLE = """
[limits]
excess = 5
drop_db = 0.5
sqnr_db = 30.0
accuracy_drop = 0.01
coverage = 0.9

[[output]]
index = 1
sqnr_db = 12.0

[[output]]
index = 1
method = "decode"
drop_db = 4

[[op]]
match = "aten.hardswish.*"
excess = 20

[[module]]
match = "encoder.layers.*"
excess = 8

[[module]]
match = "encoder.layers.3.*"
excess = 80

[[allow.fallback]]
match = "aten.topk.*"
reason = "no builder"

[[allow.dtype]]
match = "head.*"
before = "UFIXED_POINT_8"
now = "UFIXED_POINT_16"
reason = "wanted"

[[waiver]]
match = "aten_gelu_default*"
subject = "layer"
reason = "kernel of QNN 2.49"
expires = 2030-01-31
"""
DAY = datetime.date(2030, 1, 31)


def test_whole_policy() -> None:
    policy = parse_policy(WHOLE, "qnndbg.toml")
    assert (policy.limits.excess, policy.limits.sqnr_db, policy.limits.accuracy_drop) == (5, 30.0, 0.01)
    assert [entry.match for entry in policy.module] == ["encoder.layers.*", "encoder.layers.3.*"]
    assert policy.waiver[0].expires == DAY
    assert policy.allow.dtype[0].now == "UFIXED_POINT_16"


@pytest.mark.parametrize(
    ("op", "module", "expected"),
    [
        ("aten.relu.default", "", (5, "limits.excess")),
        ("aten.hardswish.default", "", (20, "op aten.hardswish.*")),
        ("aten.hardswish.default", "encoder.layers.1.act", (8, "module encoder.layers.*")),
        ("aten.relu.default", "encoder.layers.3.act", (80, "module encoder.layers.3.*")),
    ],
)
def test_most_particular_limit_of_a_layer(op: str, module: str, expected: tuple[float, str]) -> None:
    assert layer_limit(parse_policy(WHOLE, "p"), layer("n", EQUAL, EQUAL, op=op, module=module)) == expected


def test_limits_of_outputs() -> None:
    policy = parse_policy(WHOLE, "p")
    assert output_limits(policy, "forward", 0) == ((0.5, "limits.drop_db"), (30.0, "limits.sqnr_db"))
    assert output_limits(policy, "forward", 1) == ((0.5, "limits.drop_db"), (12.0, "output 1 sqnr_db"))
    assert output_limits(policy, "decode", 1).drop_db == (4, "output 1 of decode drop_db")
    assert output_limits(Policy(), "forward", 0) == ((1.0, "limits.drop_db"), None)


def test_glob_fits_no_empty_name() -> None:
    assert matches("*", "", "a")
    assert not matches("*", "")
    assert not matches("A", "a")


@pytest.mark.parametrize(
    ("text", "fact", "hint"),
    [
        ("[limits]\nexces = 3", "p.toml: there is no key exces in limits", "did you mean excess?"),
        ("[limit]\nexcess = 3", "p.toml: there is no key limit at the top", "did you mean limits?"),
        (
            "[[waiver]]\nmatch='a'\nreson='b'\n",
            "p.toml: there is no key reson in waiver",
            "did you mean reason?",
        ),
        (
            "[[allow.dtype]]\nmatch='a'\nthen='b'\nreason=''",
            "p.toml: there is no key then in allow.dtype",
            "",
        ),
        ("[limits]\nexcess = 'high'", "p.toml: limits.excess: Expected `float`, got `str`", ""),
        ("[[op]]\nmatch='a'", "p.toml: op[0]: Object missing required field `excess`", ""),
        ("[limits", "p.toml is no TOML: ", ""),
        ("[limits]\ndrop_db = -1", "p.toml: limits.drop_db: Expected `float` >= 0.0", ""),
        ("[limits]\ncoverage = 95", "p.toml: limits.coverage: Expected `float` <= 1.0", ""),
        ("[limits]\nsqnr_db = -nan", "a policy holds nan", "give a number"),
        ("[[output]]\nindex = -1", "p.toml: output[0].index: Expected `int` >= 0", ""),
        ("[[op]]\nmatch = ''\nexcess = 3", "p.toml: op[0].match: Expected `str` of length >= 1", ""),
        (
            "[[waiver]]\nmatch='a'\nreason='b'\nexpires='soon'",
            "p.toml: waiver[0].expires: Expected `date`, got `str`",
            "",
        ),
    ],
)
def test_refused(text: str, fact: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_policy(text, "p.toml")
    assert caught.value.fact.startswith(fact)
    assert caught.value.hint.startswith(hint)
    assert caught.value.hint


def test_waiver_holds_on_its_last_day_and_is_an_error_behind_it(tmp_path: Path) -> None:
    (tmp_path / "qnndbg.toml").write_text(WHOLE)
    assert read_policy(tmp_path / "qnndbg.toml", DAY).waiver
    with pytest.raises(UsageError) as caught:
        read_policy(tmp_path / "qnndbg.toml", DAY + datetime.timedelta(days=1))
    assert caught.value.fact == (
        "qnndbg.toml: the waiver for aten_gelu_default* expired on 2030-01-31: kernel of QNN 2.49"
    )


def test_policy_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "qnndbg.toml").write_bytes("[limits]\n".encode("utf-16"))
    with pytest.raises(UsageError, match="is no TOML: it is not UTF-8"):
        read_policy(tmp_path / "qnndbg.toml", DAY)


def test_policy_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_policy(tmp_path / "none.toml", DAY)
