"""QD2xx: dtypes, encodings and layouts at the borders between the parts of the lowering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from qnndbg.analyze.touched import Touched
from qnndbg.analyze.verdict import GuiltyPass, Payload
from qnndbg.model.attribution import PassChange
from qnndbg.model.graph import Atom, Node, Origin, QuantParams, Ref, TensorRef
from qnndbg.model.recording import Input, Method, Port, QnnTensor, Run
from qnndbg.recording.writer import Writer
from tests.unit.evidence import ladder
from tests.unit.recordings import HALF, node
from tests.unit.rules.cases import Case, Made, check_fires, check_misses

SIGNED = QuantParams(scales=(0.5,), zero_points=(-118,), qmin=-128, qmax=127, dtype="int8")
"""The grid of ``HALF``, which is unsigned."""
FINER = replace(HALF, scales=(0.25,))
DIGESTS = ("0" * 32, "1" * 32)


def changed(**fields: Any) -> Made:
    change = PassChange(
        method="forward",
        after="export",
        before="edge",
        event=1,
        stage="edge",
        name="I64toI32",
        digests=DIGESTS,
    )
    guilty = GuiltyPass(change=replace(change, **fields), touched=Touched((), (node("add"),), ()))
    return Made(evidence={"changes": (guilty,)})


def eager(dtype: type) -> Any:
    def make(writer: Writer) -> Run:
        return Run(runner="eager", results=(writer.tensor(np.zeros(3, dtype)),))

    return make


def program(port: str, model: type) -> Made:
    method = Method(name="forward", outputs=(Port(shape=(3,), dtype=port),), partitions=1)
    return Made(manifest={"methods": (method,)}, runs=(eager(model),))


def given(*strides: int) -> dict[str, Any]:
    note = "made contiguous; its memory is read as it is" if strides else ""
    tensor = TensorRef("0" * 32, "float32", (1, 3, 2, 2))
    return {"inputs": (Input(name="x", tensor=tensor, strides=strides, note=note),)}


def partition(encoding: QuantParams | None, **fields: Any) -> Made:
    """A relu of the encoding ``HALF`` in the graph, and another or the same one in QNN."""
    made = node("relu", encoding=HALF, tensors=("relu@0",), origin=Origin(ancestors=("relu",)))
    tensor = QnnTensor(
        name="relu@0", kind="native", dtype="UFIXED_POINT_8", shape=(3,), encoding=encoding, node="relu"
    )
    return Made(nodes=(replace(made, **fields),), tensors=(tensor,))


def exported(encoding: QuantParams) -> Made:
    """The same, of a model that quantises its relu so."""
    scale, zero = encoding.scales[0], encoding.zero_points[0]
    arguments = (Ref("relu"), scale, zero, encoding.qmin, encoding.qmax, Atom("dtype", "torch.uint8"))
    target = "quantized_decomposed.quantize_per_tensor.default"
    relu = Node(name="relu", op="call_function", target="aten.relu.default")
    made = partition(HALF)
    quantise = Node(name="quantize", op="call_function", target=target, args=arguments)
    return Made(nodes=made.nodes, tensors=made.tensors, exported=(relu, quantise))


def bias(*scales: float) -> Made:
    """Of four channels."""
    encoding = replace(SIGNED, scheme="per_channel", scales=scales, zero_points=(0,) * len(scales), axis=0)
    held = Node(
        name="bias",
        op="get_attr",
        target="bias",
        constant=TensorRef("0" * 32, "int32", (4,)),
        encoding=encoding,
    )
    return Made(nodes=(held,))


PAYLOAD = Payload(
    method="forward",
    output=0,
    tensor="output 0",
    op="aten.topk.default",
    source="net.py:7",
    detail="int32 pairs",
)
CASES = [
    Case(
        rule="QD201",
        severity="error",
        where="output 0",
        fires=Made(evidence={"payloads": (PAYLOAD,)}),
        misses=Made(),
    ),
    Case(
        rule="QD202",
        severity="error",
        where="I64toI32",
        fires=changed(narrowed=True),
        misses=changed(narrowed=False),
    ),
    Case(
        rule="QD203",
        severity="warning",
        where="output 0",
        fires=program("float16", np.float32),
        misses=program("float32", np.float32),
    ),
    Case(
        rule="QD203",
        about="as in every model",
        severity="note",
        where="output 0",
        fires=program("int32", np.int64),
        misses=program("int64", np.int64),
    ),
    Case(
        rule="QD204",
        severity="warning",
        where="relu@0",
        fires=partition(replace(HALF, scales=(0.50001,))),
        misses=partition(replace(HALF, scales=(0.5 * (1 + 1e-7),))),
    ),
    Case(
        rule="QD204",
        about="another zero point",
        severity="warning",
        where="relu@0",
        fires=partition(replace(HALF, zero_points=(11,))),
        misses=partition(SIGNED),
    ),
    Case(rule="QD205", severity="note", where="relu@0", fires=exported(FINER), misses=exported(HALF)),
    Case(
        rule="QD206",
        severity="error",
        where="x",
        fires=Made(manifest=given(12, 1, 6, 3), ladder=ladder(("htp", 80.0, 80.0), ("htp-given", 3.0, 3.0))),
        misses=Made(manifest=given(), ladder=ladder(("htp", 80.0, 80.0))),
    ),
    Case(
        rule="QD206",
        about="read as it is",
        severity="note",
        where="x",
        fires=Made(
            manifest=given(12, 1, 6, 3), ladder=ladder(("htp", 80.0, 80.0), ("htp-given", 80.0, 200.0))
        ),
        misses=Made(),
    ),
    Case(
        rule="QD207",
        severity="note",
        where="relu",
        fires=partition(HALF, requantize={"add": FINER}),
        misses=partition(HALF, requantize={"add": SIGNED}),
    ),
    Case(
        rule="QD208", severity="error", where="bias", fires=bias(0.5, 0.25), misses=bias(1.0, 2.0, 3.0, 4.0)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_fires(case: Case, tmp_path: Path) -> None:
    check_fires(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_near_miss_does_not(case: Case, tmp_path: Path) -> None:
    check_misses(case, tmp_path)
