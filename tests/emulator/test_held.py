"""Payloads of static tensors, brought back into the layout of their node; nothing is lowered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.qualcomm.builders import node_visitor

from qnndbg.capture.held import Payload, held_from_payload, payloads_seen
from qnndbg.model.graph import Node, QuantParams
from qnndbg.model.recording import Held, QnnTensor
from qnndbg.pipeline.held import input_in
from qnndbg.recording.writer import Writer

WEIGHT = np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 2, 2)
CHANNELS = QuantParams(
    scheme="per_channel",
    scales=(0.5, 0.25),
    zero_points=(0, 0),
    qmin=-127,
    qmax=127,
    dtype="int8",
    axis=0,
)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def held(writer: Writer, own: np.ndarray, payload: Payload | None, encoding: QuantParams | None) -> Held:
    node = Node(name="w", op="placeholder", constant=writer.tensor(own), encoding=encoding)
    return held_from_payload(payload, node, writer)


def channels(scales: tuple[float, ...], axis: int, **more: Any) -> dict[str, Any]:
    pairs = np.array([(s, 0) for s in scales], dtype=[("scale", np.float32), ("offset", np.int32)])
    return {"quant_min": -127, "quant_max": 127, "scale_offset": pairs, "axis": axis, **more}


def test_another_order_of_axes_is_no_difference(writer: Writer) -> None:
    payload = Payload(WEIGHT.transpose(2, 3, 1, 0), "AXIS_SCALE_OFFSET", channels((0.5, 0.25), 3))
    assert held(writer, WEIGHT, payload, CHANNELS) == Held()


def test_other_scales_are_told(writer: Writer) -> None:
    payload = Payload(WEIGHT.transpose(2, 3, 1, 0), "AXIS_SCALE_OFFSET", channels((0.5, 0.125), 3))
    found = held(writer, WEIGHT, payload, CHANNELS)
    assert found.tensor is None
    assert found.encoding is not None
    assert (found.encoding.scales, found.encoding.axis) == ((0.5, 0.125), 0)


def test_four_bits_have_their_sign(writer: Writer) -> None:
    own = np.array([[-8, -1, 0, 7], [1, 2, 3, -3]], dtype=np.int8)
    payload = Payload(own & 0x0F, "BW_AXIS_SCALE_OFFSET", channels((0.5, 0.25), 0, bitwidth=4))
    assert held(writer, own, payload, CHANNELS) == Held()


def test_numbers_that_differ_are_kept_in_the_layout_of_the_node(writer: Writer) -> None:
    own = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    wrong = own.copy()
    wrong[1, 2, 3] = -5.0
    found = held(writer, own, Payload(wrong.transpose(2, 0, 1), "UNDEFINED", {}), None)
    assert found.tensor is not None
    assert np.array_equal(writer.stored(found.tensor), wrong)


def test_wide_integers_that_were_made_compact_are_the_same(writer: Writer) -> None:
    own = np.array([0, 1, 65535], dtype=np.int32)
    assert held(writer, own, Payload(own.astype(np.uint16), "UNDEFINED", {}), None) == Held()


def test_a_payload_of_another_size_is_a_problem(writer: Writer) -> None:
    found = held(writer, np.zeros(3, np.float32), Payload(np.zeros(6, np.float32), "UNDEFINED", {}), None)
    assert found.problem == "its builder makes 6 elements of the 3 of the constant"
    assert held(writer, np.zeros(3, np.float32), None, None).problem


def test_an_unknown_encoding_is_a_problem(writer: Writer) -> None:
    found = held(writer, WEIGHT, Payload(WEIGHT, "VECTOR", {"quant_min": 0, "quant_max": 1}), CHANNELS)
    assert found.problem == "its encoding VECTOR is not known"


def test_blocks_have_the_scale_of_their_channel_times_an_integer(writer: Writer) -> None:
    own = np.ones((2, 4), np.int8)
    graph = QuantParams(
        scheme="per_block",
        scales=(0.16, 0.09, 0.05, 0.32),
        zero_points=(0, 0, 0, 0),
        qmin=-7,
        qmax=7,
        dtype="int8",
        block_size=(1, 2),
    )
    pairs = np.array([(0.01, 0), (0.02, 0)], dtype=[("scale", np.float32), ("offset", np.int32)])
    parameters = {
        "quant_min": -7,
        "quant_max": 7,
        "block_scale_offset": pairs,
        "block_scales": np.array([16, 9, 3, 16], np.uint8),
    }
    found = held(writer, own, Payload(own, "BLOCKWISE_EXPANSION", parameters), graph)
    assert found.encoding is not None
    assert found.encoding.scales == pytest.approx((0.16, 0.09, 0.06, 0.32))
    assert found.encoding.block_size == (1, 2)


def test_builders_of_another_layout_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(node_visitor, "PyQnnManager")
    with payloads_seen() as seen:
        assert seen is None


@pytest.mark.parametrize(
    ("dtype", "value", "left"),
    [
        ("INT_32", torch.tensor([2**33 + 7, -1]), torch.tensor([7, -1])),
        ("INT_32", torch.tensor([1, -1]), torch.tensor([1, -1])),
        ("FLOAT_32", torch.tensor([0.1]), torch.tensor([0.1])),
    ],
)
def test_what_is_left_of_an_input_in_the_dtype_of_its_tensor(
    dtype: str, value: torch.Tensor, left: torch.Tensor
) -> None:
    tensor = QnnTensor(name="x", kind="input", dtype=dtype, shape=tuple(value.shape))
    assert torch.equal(input_in(tensor, value), left)
