"""Hand-made recordings judged against hand-made baselines."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.errors import LoweringError, NothingComparedError, RecordingError
from qnndbg.gate.policy import Policy, parse_policy
from qnndbg.gate.triage import triage
from qnndbg.model.graph import Graph
from qnndbg.model.recording import Accuracy, Failure, Fallback, Method, Port
from qnndbg.model.result import LayerResult, Rung
from qnndbg.model.triage import Judgement
from qnndbg.recording.store import Recording
from qnndbg.report.diff_words import moved as moved_words
from tests.unit.lowerings import edited, encoding, lowering, plain
from tests.unit.test_diff_layers import compared_by, error, layer

Shown = list[tuple[str, str, str]]


def of(excess: float, node: str = "relu", **fields: object) -> LayerResult:
    """A layer whose local error is so many times its floor."""
    local = replace(error(60.0 - 10 * excess, lsb=2 * excess), rms_abs=0.25 * excess)
    return layer(node, local, local, floor=0.25, **fields)


def rung(name: str, db: float, output: int = 0, **fields: Any) -> Rung:
    return Rung(name=name, output=output, against_eager=error(db), against_previous=None, **fields)


def recorded(
    folder: Path,
    *layers: LayerResult,
    htp: float = 40.0,
    ladder: tuple[Rung, ...] = (),
    scale: float = 0.1,
    coverage: int = 4,
    **page: Any,
) -> Recording:
    """A recording with a pass Fold that leaves a scale."""
    last = edited(plain(), "relu", encoding=encoding(scale))
    answer = compared_by(
        *(layers or (of(1.0),)), ladder=ladder or (rung("quantized", 45.0), rung("htp", htp))
    )
    answer = replace(answer, coverage=replace(answer.coverage, compared=coverage, total=4))
    return lowering(
        folder,
        [("transform", "", plain()), ("transform", "Fold", last), ("preprocess", "", last)],
        comparison=answer,
        qnn=True,
        **page,
    )


def shown(judgements: tuple[Judgement, ...]) -> Shown:
    return [(one.subject, one.where, one.status) for one in judgements]


def test_unchanged(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a")
    found = triage(a, baseline_of(a), Policy())
    assert (found.passed, found.judgements, found.parting) == (True, (), None)
    assert {status: number for status, number in found.counts.items() if number} == {"unchanged": 2}


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        (1.0, 2.9, None),  # within the noise floor, if more than before
        (1.0, 3.1, "regressed"),
        (3.1, 3.1, None),  # what the baseline has is accepted
        (4.0, 5.0, "regressed"),
        (5.0, 4.0, "fixed"),
        (4.0, 1.0, "fixed"),
    ],
)
def test_layer(tmp_path: Path, before: float, now: float, status: str | None) -> None:
    a, b = recorded(tmp_path / "a", of(before)), recorded(tmp_path / "b", of(now))
    found = triage(b, baseline_of(a), Policy())
    assert shown(found.judgements) == ([("layer", "relu@0", status)] if status else [])
    assert found.passed == (status != "regressed")


def test_layer_without_a_floor_is_judged_by_its_trend(tmp_path: Path) -> None:
    good, bad = error(60.0, lsb=2.0), error(20.0, lsb=40.0)
    a, b = (
        recorded(tmp_path / "a", layer("relu", good, good)),
        recorded(tmp_path / "b", layer("relu", bad, bad)),
    )
    assert shown(triage(b, a, Policy()).judgements) == [("layer", "relu@0", "regressed")]
    assert shown(triage(a, b, Policy()).judgements) == [("layer", "relu@0", "fixed")]


def test_limits_are_those_of_the_policy_and_need_no_run(tmp_path: Path) -> None:
    a, b = recorded(tmp_path / "a", of(1.0)), recorded(tmp_path / "b", of(9.0))
    lax = parse_policy("[[op]]\nmatch = 'aten.relu.*'\nexcess = 10", "p")
    assert not triage(b, a, Policy()).passed
    assert triage(b, a, lax).passed
    assert not triage(b, None, Policy()).passed
    assert triage(b, None, lax).passed


def test_new_and_missing_layers(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a", of(1.0), of(2.0, "linear"))
    b = recorded(tmp_path / "b", of(1.0), of(2.0, "add"))
    found = triage(b, a, Policy())
    assert sorted(shown(found.judgements)) == [("layer", "add@0", "new"), ("layer", "linear@0", "missing")]
    assert found.passed
    worse = triage(recorded(tmp_path / "c", of(1.0), of(9.0, "add")), a, Policy())
    assert ("layer", "add@0", "regressed") in shown(worse.judgements)


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [(40.0, 39.1, None), (40.0, 38.9, "regressed"), (40.0, 41.1, "fixed"), (200.0, 110.0, None)],
)
def test_output(tmp_path: Path, before: float, now: float, status: str | None) -> None:
    a, b = recorded(tmp_path / "a", htp=before), recorded(tmp_path / "b", htp=now)
    found = triage(b, baseline_of(a), Policy())
    assert shown(found.judgements) == ([("output", "output 0", status)] if status else [])
    if status == "regressed":
        (one,) = found.judgements
        assert one.blame is not None
        assert (one.before, one.now, one.limit, one.said_by) == (before, now, 1.0, "limits.drop_db")
        assert one.blame.rung == "htp"


@pytest.mark.parametrize(("moved", "rung_name"), [(0.07, "quantized"), (0.03, "htp")])
def test_check_and_diff_agree_on_the_first_rung_to_move(tmp_path: Path, moved: float, rung_name: str) -> None:
    a = recorded(tmp_path / "a", ladder=(rung("quantized", 45.0), rung("htp", 40.0)))
    b = recorded(tmp_path / "b", ladder=(rung("quantized", 45.0 - moved), rung("htp", 30.0)))
    (one,) = triage(b, a, Policy()).judgements
    assert one.blame is not None
    assert one.blame.rung == rung_name
    assert f"the first rung to move is {rung_name}" in moved_words(diff_recordings(a, b))


def test_output_below_what_it_must_have_fails_though_it_did_so_before(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a", htp=12.0)
    policy = parse_policy("[[output]]\nindex = 0\nsqnr_db = 12.5", "p")
    (one,) = triage(a, a, policy).judgements
    assert (one.status, one.limit, one.said_by) == ("regressed", 12.5, "output 0 sqnr_db")


def test_worst_sample_of_an_output_counts(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a", ladder=(rung("htp", 40.0), rung("htp", 50.0, sample=1)))
    b = recorded(tmp_path / "b", ladder=(rung("htp", 40.0), rung("htp", 20.0, sample=1)))
    (one,) = triage(b, a, Policy()).judgements
    assert (one.before, one.now) == (40.0, 20.0)


def test_output_that_turned_not_finite_or_is_gone(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a")
    broken = replace(rung("htp", 90.0), against_eager=error(90.0, nonfinite=1))
    (one,) = triage(recorded(tmp_path / "b", ladder=(broken,)), a, Policy()).judgements
    assert (one.status, one.now) == ("regressed", 0.0)
    gone = triage(recorded(tmp_path / "c", ladder=(rung("quantized", 45.0),)), a, Policy())
    assert shown(gone.judgements) == [("output", "output 0", "missing")]
    assert not gone.passed


def test_another_model_is_to_blame_itself_not_the_stage_that_it_came_from(tmp_path: Path) -> None:
    def of_model(name: str, graph: Graph, htp: float) -> Recording:
        answer = compared_by(of(1.0), ladder=(rung("htp", htp),))
        steps = [("export", "", graph), ("preprocess", "", graph)]
        return lowering(tmp_path / name, steps, comparison=answer, qnn=True)

    other = edited(plain(), "relu", target="aten.sigmoid.default")
    found = triage(of_model("b", other, 20.0), baseline_of(of_model("a", plain(), 40.0)), Policy())
    assert found.parting is not None
    assert found.parting.kind == "start"
    assert [one.blame.by for one in found.judgements if one.blame] == ["the model"]


def test_blame_is_the_pass_where_they_part(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a", of(1.0, encoding=encoding(0.1)))
    b = recorded(tmp_path / "b", of(7.0, encoding=encoding(0.9)), scale=0.9, htp=20.0)
    found = triage(b, baseline_of(a), Policy())
    assert shown(found.judgements) == [("output", "output 0", "regressed"), ("layer", "relu@0", "regressed")]
    assert {one.blame.by for one in found.judgements if one.blame} == {"Fold (transform)"}
    assert found.judgements[1].blame is not None
    (change,) = found.judgements[1].blame.changes
    assert (change.what, change.a, change.b) == ("scale", 0.1, 0.9)


def test_dtype(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a", of(1.0, module="head.act"))
    b = recorded(tmp_path / "b", of(1.0, module="head.act", dtype="UFIXED_POINT_16"))
    (one,) = triage(b, baseline_of(a), Policy()).judgements
    assert (one.subject, one.status, one.before, one.now) == (
        "dtype", "regressed", "UFIXED_POINT_8", "UFIXED_POINT_16",
    )  # fmt: skip
    allow = "[[allow.dtype]]\nmatch='head.*'\nnow='UFIXED_POINT_{}'\nreason='wanted'"
    allowed = triage(b, a, parse_policy(allow.format(16), "p"))
    assert (allowed.passed, allowed.judgements[0].status, allowed.judgements[0].waiver) == (
        True,
        "waived",
        "wanted",
    )
    assert not triage(b, a, parse_policy(allow.format(32), "p")).passed


def test_dtype_of_the_program(tmp_path: Path) -> None:
    methods = {
        dtype: (Method(name="forward", partitions=1, outputs=(Port(shape=(1,), dtype=dtype),)),)
        for dtype in ("int64", "int32")
    }
    a = recorded(tmp_path / "a", methods=methods["int64"])
    b = recorded(tmp_path / "b", methods=methods["int32"])
    (one,) = triage(b, a, Policy()).judgements
    assert (one.where, one.before, one.now) == ("forward: output 0", "int64 [1]", "int32 [1]")


def test_fallback(tmp_path: Path) -> None:
    fallback = Fallback(node="aten_topk_default", op="aten.topk.default", reason="no builder")
    a = recorded(tmp_path / "a", methods=(Method(name="forward", partitions=1),))
    b = recorded(tmp_path / "b", methods=(Method(name="forward", partitions=1, fallbacks=(fallback,)),))
    (one,) = triage(b, a, Policy()).judgements
    assert (one.subject, one.status, one.op, one.now) == ("fallback", "regressed", fallback.op, "no builder")
    assert shown(triage(a, b, Policy()).judgements) == [("fallback", "aten_topk_default", "fixed")]
    allow = parse_policy("[[allow.fallback]]\nmatch='aten.topk.*'\nreason='known'", "p")
    assert triage(b, a, allow).passed


@pytest.mark.parametrize(
    ("right", "limit", "status"), [(98, 0.0, "regressed"), (98, 0.01, None), (100, 0.0, "fixed")]
)
def test_accuracy(tmp_path: Path, right: int, limit: float, status: str | None) -> None:
    a, b = (
        recorded(tmp_path / str(i), accuracy=Accuracy(samples=100, correct={"eager": 100, "htp": n}))
        for i, n in enumerate((99, right))
    )
    policy = parse_policy(f"[limits]\naccuracy_drop = {limit}", "p")
    found = triage(b, a, policy).judgements
    assert shown(found) == ([("accuracy", "htp", status)] if status else [])


def test_coverage(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a", coverage=3)
    policy = parse_policy("[limits]\ncoverage = 0.75", "p")
    (one,) = triage(recorded(tmp_path / "b", coverage=2), a, policy).judgements
    assert (one.status, one.before, one.now, one.limit) == ("regressed", "3 of 4", "2 of 4", 0.75)
    assert triage(a, a, policy).passed
    with pytest.raises(NothingComparedError):
        triage(recorded(tmp_path / "c", coverage=0), a, Policy())


def test_limits_of_what_is_not_there_are_said(tmp_path: Path) -> None:
    text = """
        output = [{index = 0, drop_db = 1}, {index = 0, method = "decode"}, {index = 7, sqnr_db = 1}]
        op = [{match = "aten.relu.*", excess = 9}, {match = "aten.gelu.*", excess = 9}]
        module = [{match = "encoder.*", excess = 9}]
    """
    a = recorded(tmp_path / "a")
    assert triage(a, a, parse_policy(text, "p")).notes == (
        "there is no output 0 of decode, for which the policy has limits",
        "there is no output 7 of forward, for which the policy has limits",
        "no op is aten.gelu.*, for which the policy has a limit",
        "no module is encoder.*, for which the policy has a limit",
    )


def test_waiver(tmp_path: Path) -> None:
    a, b = recorded(tmp_path / "a", of(1.0)), recorded(tmp_path / "b", of(9.0), htp=30.0)
    text = "[[waiver]]\nmatch='{}'\nreason='known'\nexpires=2030-01-01\n"
    waived = triage(b, a, parse_policy(text.format("relu@*") + text.format("output 0"), "p"))
    assert (waived.passed, {one.status for one in waived.judgements}) == (True, {"waived"})
    assert waived.judgements[0].waiver == f"known (until {datetime.date(2030, 1, 1)})"
    half = triage(b, a, parse_policy(text.format("relu@*") + text.format("gelu*"), "p"))
    assert not half.passed
    assert half.notes == ("the waiver for gelu* waives nothing; take it out",)


def test_other_environment_is_a_note(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a")
    newer = replace(a.manifest.environment, packages={"torch": "3.0"})
    b = recorded(tmp_path / "b", environment=newer, precision="8a8w")
    found = triage(b, baseline_of(a), Policy())
    assert found.passed
    assert [(c.what, c.b) for c in found.environment] == [("torch", "3.0")]
    assert found.notes == (
        "the baseline is of another precision: fp16, here 8a8w",
        "the baseline was made in another environment: torch",
    )


def test_recording_that_cannot_be_judged(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a")
    failed = recorded(tmp_path / "b", complete=False, failure=Failure(step="lower", error="no", hint="do"))
    with pytest.raises(LoweringError, match="failed at lower: no"):
        triage(failed, a, Policy())
    with pytest.raises(RecordingError, match="not complete"):
        triage(recorded(tmp_path / "c", complete=False), a, Policy())
