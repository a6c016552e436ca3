"""Parts of a recording that do not fit one another: refused by the comparison, told by ``show``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from qnndbg.analyze.compare import compare
from qnndbg.errors import RecordingError
from qnndbg.model.attribution import Attribution, PassChange
from qnndbg.model.layer_ladder import LayerLadder, LayerRungs
from qnndbg.model.recording import Run
from qnndbg.model.result import Rung
from qnndbg.recording.parts import lost_parts
from qnndbg.recording.store import open_recording
from qnndbg.recording.writer import Writer
from tests.unit.evidence import attribution, effect
from tests.unit.recordings import Maker, Tensor, manifest, node, raw, real

IN_PART = effect(partition=0)
CHANGE = PassChange(
    after="export", before="edge", method="forward", event=7, stage="edge", name="Wrong", digests=("", "")
)


def recorded(folder: Path, floor: float = 0.1) -> Maker:
    """A partition of one layer, and a program of one output."""
    maker = Maker(folder)
    relu = node("relu")
    exact = real(0, 0.5, 1)
    tensor = Tensor(
        name="relu@0", made_by=relu, floor=floor, htp=raw(10, 11, 12), reference=exact, local=exact
    )
    maker.partition(0, [tensor])
    result = maker.writer.tensor(real(1, 2, 3))
    maker.writer.run(Run(runner="eager", results=(result,)))
    return maker


def with_attribution(made: Attribution) -> Callable[[Path], Maker]:
    def make(folder: Path) -> Maker:
        maker = recorded(folder)
        maker.writer.attribution(made)
        return maker

    return make


def with_change(folder: Path) -> Maker:
    maker = recorded(folder)
    maker.writer.pass_change(CHANGE)
    return maker


NONSENSE: dict[str, Callable[[Path], Maker]] = {
    "'relu@0' of the run local has a floor of -1.0": lambda folder: recorded(folder, floor=-1.0),
    "the attribution backend.forward.0.5 is of output 5, which no run has": with_attribution(
        attribution(IN_PART, output=5)
    ),
    "the attribution backend.forward.0.-1 is of output -1, which no run has": with_attribution(
        attribution(IN_PART, output=-1)
    ),
    "the attribution backend.forward.0.0 speaks of partition 9, which there is not": with_attribution(
        attribution(replace(IN_PART, partition=9))
    ),
    "the attribution backend.forward.0.0 has an error or a signal below zero": with_attribution(
        attribution(IN_PART, error=-0.1)
    ),
    "the attribution backend.forward.0.0 has a floor of -1.0 at 'aten_mul_tensor@0'": with_attribution(
        attribution(replace(IN_PART, floor=-1.0))
    ),
    "the change by Wrong is of pass event 7, which there is not": with_change,
}


@pytest.mark.parametrize(("said", "make"), NONSENSE.items(), ids=NONSENSE)
def test_nonsense_is_refused(said: str, make: Callable[[Path], Maker], tmp_path: Path) -> None:
    with pytest.raises(RecordingError) as raised:
        make(tmp_path).compared()
    assert raised.value.fact == said
    assert raised.value.hint
    assert lost_parts(open_recording(tmp_path)) == (said,)


def test_what_fits_is_compared(tmp_path: Path) -> None:
    with_attribution(attribution(IN_PART))(tmp_path).compared()
    assert lost_parts(open_recording(tmp_path)) == ()


def test_a_partition_that_is_not_there_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path).compared()
    (graph,) = (tmp_path / "qnn").iterdir()
    graph.unlink()
    with pytest.raises(RecordingError, match="is in partition 0, which there is not"):
        compare(open_recording(tmp_path))


@pytest.mark.parametrize("number", ["NaN", "1e999", '"much"'])
def test_what_is_no_number_is_refused(number: str, tmp_path: Path) -> None:
    with_attribution(attribution(IN_PART))(tmp_path).compared()
    (file,) = (tmp_path / "attributions").iterdir()
    file.write_text(file.read_text().replace('"error": 0.01,', f'"error": {number},', 1))
    with pytest.raises(RecordingError, match="does not hold what a recording must hold"):
        compare(open_recording(tmp_path))


def test_a_tensor_that_is_cut_short_is_told(tmp_path: Path) -> None:
    recorded(tmp_path).compared()
    files = sorted((tmp_path / "tensors").iterdir())
    assert lost_parts(open_recording(tmp_path)) == ()
    files[0].write_bytes(b"")
    files[1].unlink()
    said = f"2 of {len(files)} tensors are missing or cut short in tensors/"
    assert lost_parts(open_recording(tmp_path)) == (said,)


def test_what_a_guilty_pass_changed_is_missed(tmp_path: Path) -> None:
    maker = recorded(tmp_path)
    answer = maker.compared()
    verdict = replace(answer.verdict, kind="pass", culprit="Wrong", share=1.0)
    Writer(tmp_path).comparison(replace(answer, verdict=verdict))
    assert lost_parts(open_recording(tmp_path)) == (
        "what the pass Wrong changed is missing in pass-changes/",
    )


def climbed(folder: Path) -> Path:
    """A complete recording with a ladder of its layer; gives the file of that."""
    maker = recorded(folder)
    maker.writer.manifest(manifest(complete=True))
    maker.writer.run(Run(runner="reference", results=(maker.writer.tensor(real(1, 2, 3)),)))
    both = Rung(name="reference", output=0, against_eager=None, against_previous=None)
    layer = LayerRungs(
        tensor="relu@0", partition=0, against_eager=(200.0, 40.0), against_previous=(None, 40.0)
    )
    maker.writer.layer_ladder(LayerLadder(rungs=("eager", "reference"), layers=(layer,)))
    maker.writer.comparison(replace(maker.compared(), ladder=(both,)))
    (file,) = (folder / "layer-ladders").iterdir()
    return file


def test_a_ladder_of_layers_is_missed(tmp_path: Path) -> None:
    file = climbed(tmp_path)
    assert lost_parts(open_recording(tmp_path)) == ()
    file.unlink()
    said = "1 of 1 ladders of layers are missing in layer-ladders/"
    assert lost_parts(open_recording(tmp_path)) == (said,)


def test_a_ladder_of_layers_that_cannot_be_is_told(tmp_path: Path) -> None:
    file = climbed(tmp_path)
    file.write_text(file.read_text().replace("200.0,", "", 1))
    said = "the ladder forward.0 of 'relu@0' has not an entry for each rung"
    assert lost_parts(open_recording(tmp_path)) == (said,)
    file.write_text("{")
    (said,) = lost_parts(open_recording(tmp_path))
    assert "forward.0.json does not hold what a recording must hold" in said


def test_a_qnn_graph_is_missed_once(tmp_path: Path) -> None:
    maker = recorded(tmp_path)
    maker.writer.comparison(maker.compared())
    (graph,) = (tmp_path / "qnn").iterdir()
    graph.unlink()
    assert lost_parts(open_recording(tmp_path)) == ("1 of 1 QNN graphs are missing in qnn/",)
