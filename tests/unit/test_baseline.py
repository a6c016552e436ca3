"""Baselines: what they keep, what they leave out, and that they compare like the recordings they are of."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from qnndbg.analyze.baseline.reduce import baseline_of
from qnndbg.analyze.baseline.trim import rounded, trimmed
from qnndbg.analyze.diff.recordings import diff_recordings
from qnndbg.cli.main import main
from qnndbg.errors import RecordingError, SchemaError, UsageError
from qnndbg.model.graph import Graph, Origin, QuantParams
from qnndbg.recording.baseline import write_baseline
from qnndbg.recording.store import Recording, open_recording
from tests.unit.lowerings import edited, encoding, lowering, plain, renamed
from tests.unit.test_diff_layers import EQUAL, compared_by, error, layer


def recording(folder: Path, after: Graph | None = None, db: float = 40.0) -> Recording:
    """Two passes, of which the last one leaves a graph of the caller's."""
    last = after or plain()
    return lowering(
        folder,
        [
            ("export", "", plain()),
            ("transform", "", plain()),
            ("transform", "Fold", last),
            ("preprocess", "", last),
        ],
        results={"eager": [1.0], "htp": [1.0]},
        comparison=compared_by(
            layer("relu", error(db, lsb=3.0), error(db, lsb=3.0)), layer("add", EQUAL, EQUAL)
        ),
        qnn=True,
    )


def baseline(folder: Path, of: Recording) -> Recording:
    write_baseline(folder, baseline_of(of))
    return open_recording(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_written_and_read_again(tmp_path: Path) -> None:
    made = baseline_of(recording(tmp_path / "a"))
    write_baseline(tmp_path / "a.baseline", made)
    read = open_recording(tmp_path / "a.baseline")
    assert baseline_of(read).data == made.data
    assert read.manifest == made.manifest
    assert [event.name for event in read.passes] == ["", "", "Fold", ""]
    assert [event.index for event in read.passes] == [0, 1, 2, 3]


def test_equal_lowerings_give_equal_bytes_whatever_the_names_and_lines(tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        graph = edited(plain(), "relu", handle=(number,), origin=Origin(source=f"net.py:{number}"))
        baseline(tmp_path / f"{name}.baseline", recording(tmp_path / name, graph))
    assert files(tmp_path / "a.baseline") == files(tmp_path / "b.baseline")


def test_all_of_it_is_text_without_tensors(tmp_path: Path) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    found = files(tmp_path / "a.baseline")
    assert "graphs/transform.forward.jsonl" in found
    assert all(text.decode().endswith("\n") for text in found.values())
    assert {Path(name).suffix for name in found} == {".json", ".jsonl"}
    relu = [
        x for x in found["graphs/transform.forward.jsonl"].decode().splitlines() if x.startswith('["relu"')
    ]
    assert len(relu) == 1


def test_baseline_is_the_same_as_its_recording(tmp_path: Path) -> None:
    made = recording(tmp_path / "a")
    kept = baseline(tmp_path / "a.baseline", made)
    for a, b in ((made, kept), (kept, made), (kept, kept)):
        assert diff_recordings(a, b).same


def test_renamed_graph_is_the_same_for_a_baseline(tmp_path: Path) -> None:
    kept = baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    other = renamed(plain(), {"linear": "linear_7", "w": "v"})
    diff = diff_recordings(kept, recording(tmp_path / "b", other))
    assert diff.first_parting is None
    assert diff.graphs == ()


def test_pass_at_which_a_recording_parts_from_a_baseline(tmp_path: Path) -> None:
    kept = baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    diff = diff_recordings(
        kept, recording(tmp_path / "b", edited(plain(), "relu", encoding=encoding(0.7)), 20.0)
    )
    parting = diff.first_parting
    assert parting is not None
    assert parting.b is not None
    assert (parting.kind, parting.stage, parting.b.name) == ("behaviour", "transform", "Fold")
    assert parting.graph is not None
    (node,) = parting.graph.changed
    assert [(c.what, c.a, c.b) for c in node.changes] == [("scale", 0.1, 0.7)]
    assert [x.status for x in diff.layers if x.b and x.b.tensor == "relu@0"] == ["regressed"]


def test_parting_at_a_snapshot_that_is_not_kept_is_found_by_its_digest(tmp_path: Path) -> None:
    changed = edited(plain(), "relu", encoding=encoding(0.7))
    ways = {"a": plain(), "b": changed}
    made = [
        lowering(
            tmp_path / name,
            [("export", "", plain()), ("edge", "Early", graph), ("transform", "Late", plain())],
            comparison=compared_by(layer("relu", EQUAL, EQUAL)),
        )
        for name, graph in ways.items()
    ]
    diff = diff_recordings(baseline(tmp_path / "a.baseline", made[0]), made[1])
    assert diff.graphs == ()
    assert [(d.stage, d.b and d.b.name) for d in diff.passes] == [("edge", "Early"), ("transform", "Late")]
    assert diff.first_parting is not None
    assert diff.first_parting.b is not None
    assert (diff.first_parting.b.name, diff.first_parting.graph) == ("Early", None)


def test_show_reads_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    assert main(["show", str(tmp_path / "a.baseline")]) == 0
    assert "relu@0" in capsys.readouterr().out


def test_long_encodings_are_summed_up_and_short_ones_kept() -> None:
    long = QuantParams(
        scheme="per_channel",
        scales=(3.0, 4.0, 0.0, 0.0, 5.0),
        zero_points=(1, -2, 3, 0, 0),
        qmin=-127,
        qmax=127,
        dtype="int8",
        axis=0,
    )
    assert trimmed(long, 9) == replace(long, scales=(0.0, 5.0, 3.16227766), zero_points=(-2, 3, 2))
    short = encoding(0.0123456789123)
    assert trimmed(short, 3).scales == (0.0123456789,)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.00123456, 0.0012346), (123456.0, 123460.0), (-2.5, -2.5), (0.0, 0.0)]
)
def test_rounded(value: float, expected: float) -> None:
    assert rounded(value, 5) == expected


@pytest.mark.parametrize("lost", ["layers.jsonl", "manifest.json", "passes.jsonl", "ladder.jsonl"])
def test_baseline_with_a_part_missing(tmp_path: Path, lost: str) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    (tmp_path / "a.baseline" / lost).unlink()
    with pytest.raises(RecordingError, match=lost):
        open_recording(tmp_path / "a.baseline")


@pytest.mark.parametrize(
    "lost",
    ["layers.jsonl", "passes.jsonl", "runs.jsonl", "qnn/forward.0.ops.jsonl", "qnn/forward.0.tensors.jsonl"],
)
def test_baseline_with_a_damaged_line(tmp_path: Path, lost: str) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    with (tmp_path / "a.baseline" / lost).open("a") as file:
        file.write("[1]\n")
    with pytest.raises(RecordingError, match=Path(lost).name):
        open_recording(tmp_path / "a.baseline")


@pytest.mark.parametrize(
    "name",
    [
        "layers.jsonl",
        "ladder.jsonl",
        "passes.jsonl",
        "runs.jsonl",
        "graphs/exported.forward.jsonl",
        "qnn/forward.0.ops.jsonl",
    ],
)
@pytest.mark.parametrize("edit", [lambda lines: lines[:-1], lambda lines: [*lines, lines[-1]]])
def test_baseline_that_lost_or_got_a_line_is_damaged(
    tmp_path: Path, name: str, edit: Callable[[list[str]], list[str]]
) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    path = tmp_path / "a.baseline" / name
    written = path.read_text().splitlines(keepends=True)
    path.write_text("".join(edit(written)))
    with pytest.raises(RecordingError) as caught:
        open_recording(tmp_path / "a.baseline")
    found, count = len(edit(written)), len(written)
    assert f"is damaged: {name} has {found} lines, and {count} were written" in caught.value.fact
    assert "restore it from version control" in caught.value.hint


@pytest.mark.parametrize("lost", ["graphs/transform.forward.jsonl", "qnn/forward.0.ops.jsonl"])
def test_baseline_that_lost_a_graph_is_damaged(tmp_path: Path, lost: str) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    (tmp_path / "a.baseline" / lost).unlink()
    with pytest.raises(RecordingError, match=f"is damaged: {lost} is missing"):
        open_recording(tmp_path / "a.baseline")


def test_baseline_whose_lines_nobody_counted_is_read(tmp_path: Path) -> None:
    made = baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    front = tmp_path / "a.baseline" / "baseline.json"
    counted = msgspec.json.decode(front.read_bytes())
    assert counted.pop("lines")["layers.jsonl"] == 3  # the names of the fields, and two layers
    front.write_bytes(msgspec.json.encode(counted))
    assert open_recording(tmp_path / "a.baseline").comparison() == made.comparison()


def test_baseline_of_another_schema_says_what_to_do(tmp_path: Path) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    front = tmp_path / "a.baseline" / "baseline.json"
    for version, hint in ((0, "--update"), (99, "pip install --upgrade")):
        front.write_text(f'{{"schema": {version}, "sizes": {{}}}}')
        with pytest.raises(SchemaError, match=f"schema {version}") as caught:
            open_recording(tmp_path / "a.baseline")
        assert hint in caught.value.hint


def test_baseline_replaces_a_baseline_and_nothing_else(tmp_path: Path) -> None:
    made = baseline_of(recording(tmp_path / "a"))
    write_baseline(tmp_path / "b", made)
    write_baseline(tmp_path / "b", made)
    (tmp_path / "empty").mkdir()
    write_baseline(tmp_path / "empty", made)
    assert open_recording(tmp_path / "empty").comparison() == made.comparison()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()
    with pytest.raises(UsageError, match="is no baseline"):
        write_baseline(tmp_path / "other", made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "empty", "other"]


def test_baseline_that_cannot_be_written_is_said_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = baseline_of(recording(tmp_path / "a"))
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written: .*exists"):
        write_baseline(tmp_path / "file" / "b", made)
    write_baseline(tmp_path / "b", made)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="b cannot be written: No space left"):
        write_baseline(tmp_path / "b", made)
    assert open_recording(tmp_path / "b").comparison() == made.comparison()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "file"]


@pytest.mark.parametrize("content", ["", "<<<<<<< ours\n"])
def test_damaged_baseline_is_named_and_how_to_get_another(tmp_path: Path, content: str) -> None:
    baseline(tmp_path / "a.baseline", recording(tmp_path / "a"))
    (tmp_path / "a.baseline" / "layers.jsonl").write_text(content)
    with pytest.raises(
        RecordingError, match=r"the baseline .*a\.baseline is damaged: layers\.jsonl"
    ) as caught:
        open_recording(tmp_path / "a.baseline")
    assert f"--update --baseline {tmp_path / 'a.baseline'}" in caught.value.hint
