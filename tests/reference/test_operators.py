"""Names from a recording lead to known operators and to nothing else."""

from __future__ import annotations

import math
import operator
import sys

import pytest
import torch

from qnndbg.execute.operators import FUNCTIONS, REGISTERED_BY, find_operator


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("aten.relu.default", torch.ops.aten.relu.default),
        ("aten.add.Tensor", torch.ops.aten.add.Tensor),
        ("aten.mul_.Scalar", torch.ops.aten.mul_.Scalar),
        ("aten.relu", torch.ops.aten.relu),
        ("prims.convert_element_type.default", torch.ops.prims.convert_element_type.default),
        ("operator.getitem", operator.getitem),
        ("math.ceil", math.ceil),
        ("torch.sym_max", torch.sym_max),
    ],
)
def test_known_names_are_found(name: str, found: object) -> None:
    assert find_operator(name) is found


@pytest.mark.parametrize(
    "name",
    [
        "quantized_decomposed.quantize_per_tensor.default",
        "quantized_decomposed.dequantize_per_channel.default",
        "torchao.dequantize_affine",
        "torchao.quantize_affine.default",
        "dim_order_ops._to_dim_order_copy.default",
    ],
)
def test_namespaces_are_registered_when_they_are_asked_for(name: str) -> None:
    assert isinstance(find_operator(name), (torch._ops.OpOverload, torch._ops.OpOverloadPacket))


NAMES = [
    *(
        "",
        ".",
        "..",
        "aten",
        "aten.",
        "aten..",
        "relu",
        "aten.no_such_op.default",
        "aten.relu.no_such_overload",
    ),
    *("os.system", "builtins.eval", "builtins.exec", "subprocess.run", "torch.load", "torch.ops.aten.relu"),
    *(
        "operator.attrgetter",
        "operator.methodcaller",
        "operator.call",
        "operator.setitem",
        "operator.__all__",
    ),
    *("math.exp", "math.__loader__", "torch.sym_max.__globals__", "torch._C._jit_get_all_schemas"),
    *(
        "aten.__class__",
        "aten.relu.name",
        "aten.relu.default.__globals__",
        "prims.__init__",
        "aten.__loader__.x",
    ),
    *("higher_order.executorch_call_delegate", "higher_order.cond", "quantized.linear", "c10d.barrier"),
]


@pytest.mark.parametrize("name", NAMES)
def test_other_names_lead_nowhere(name: str) -> None:
    assert find_operator(name) is None


@pytest.mark.parametrize(
    "name",
    [
        *("aten.__class__.mro", "aten.__class__.__init__", "aten.__class__.__subclasses__"),
        *("aten.__dict__.update", "aten.__dict__.clear", "aten.__getattr__.__call__", "aten._dir.append"),
        *("aten.relu.__class__", "aten.relu.__init__", "aten.relu.__reduce__", "aten.relu.overloads"),
    ],
)
def test_attributes_of_torchs_own_objects_are_no_operators(name: str) -> None:
    assert find_operator(name) is None


@pytest.mark.parametrize("name", ["aten.from_file.default", "aten.save.default"])
def test_operators_that_touch_files_are_unknown(name: str) -> None:
    assert find_operator(name) is None


def test_operators_of_the_emitted_program_are_known() -> None:
    view, alloc = (find_operator(f"executorch.exir.memory.{name}") for name in ("view", "alloc"))
    assert view is not None
    assert alloc is not None
    assert view(torch.arange(6), [2, 3]).tolist() == [[0, 1, 2], [3, 4, 5]]
    made = alloc(((2, 3), torch.float16))
    assert (made.shape, made.dtype) == ((2, 3), torch.float16)


def test_a_name_is_never_imported() -> None:
    assert find_operator("antigravity.fly.default") is None
    assert find_operator("qnndbg.nonsense.default") is None
    assert "antigravity" not in sys.modules


def test_plain_functions_are_pure_ones_of_known_modules() -> None:
    assert {name.partition(".")[0] for name in FUNCTIONS} == {"operator", "math", "torch"}
    assert not FUNCTIONS.keys() & {"operator.setitem", "operator.delitem", "operator.iadd", "operator.call"}
    assert all(function.__name__ == name.rpartition(".")[2] for name, function in FUNCTIONS.items())


def test_no_namespace_is_one_that_reaches_out_of_the_process() -> None:
    assert set(REGISTERED_BY) == {"aten", "prims", "quantized_decomposed", "torchao", "dim_order_ops"}
