"""What a target may be, and the answer to everything else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from qnndbg.errors import LoweringError, UsageError
from qnndbg.model.target import Evaluation, Target
from qnndbg.pipeline.calls import call, contiguous, count_correct, flatten
from qnndbg.pipeline.target import PROTOCOL, load_target, stacked

HEAD = """
import qnndbg.errors
import torch
from torch import nn
m, x = nn.Linear(2, 2).eval(), torch.ones(1, 2)
"""


@pytest.fixture(autouse=True)
def restored(tmp_path: Path) -> Iterator[None]:
    """Loading a script adds to the import path and to the modules; a test takes that back."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script_of_a_user.py"


def load(script: Path, body: str, name: str = "make") -> Target:
    script.write_text(HEAD + body)
    return load_target(f"{script}:{name}")


def returned(script: Path, expression: str) -> Target:
    return load(script, f"def make():\n    return {expression}\n")


@pytest.mark.parametrize(
    ("expression", "inputs", "calibration"),
    [
        ("m, x", 1, 1),
        ("m, (x,)", 1, 1),
        ("m, [x, x + 1]", 2, 1),
        ("[m, (x,)]", 1, 1),
        ("m, (x,), [(x,), (x + 1,)]", 1, 2),
        ("m, (x,), [x, x, x]", 1, 3),
        ("m, (x,), ((x,) for _ in range(4))", 1, 4),
        ("m, (x,), []", 1, 1),
        ("m, (x,), None", 1, 1),
        ("m, (x,), [], None", 1, 1),
        ("qnndbg.Target(m, (x,))", 1, 0),
        ("qnndbg.Target(m, (x,), None)", 1, 0),
        ("qnndbg.Target(m, [x], [x, (x,)])", 1, 2),
        ("qnndbg.Target(m, ((x, x), {'a': x}))", 2, 0),
    ],
)
def test_what_a_factory_may_return(script: Path, expression: str, inputs: int, calibration: int) -> None:
    target = returned(script, expression)
    assert isinstance(target.module, nn.Linear)
    assert (len(target.inputs), len(target.calibration)) == (inputs, calibration)
    assert all(isinstance(v, torch.Tensor) for v in flatten(target.inputs))


def test_fourth_item_is_what_is_compared(script: Path) -> None:
    target = returned(script, "m, (x,), [(x + 1,), (x + 2,)], (x + 3,)")
    assert [v.tolist() for v in flatten(target.inputs)] == [[[4.0, 4.0]]]
    assert [v.tolist() for v in flatten(target.calibration)] == [[[2.0, 2.0]], [[3.0, 3.0]]]


@pytest.mark.parametrize(
    ("expression", "fact"),
    [
        ("None", "returned NoneType"),
        ("m", "returned Linear"),
        ("(m,)", "returned tuple of Linear"),
        ("()", "returned tuple of nothing"),
        ("(x, m)", "returned tuple of Tensor, Linear"),
        ("m, (x,), [], (x,), 5", "returned tuple of Linear, tuple, list, tuple, int"),
        ("nn.Linear, (x,)", "returned tuple of type, tuple"),
        ("m, {'x': x}", "gave inputs of type dict"),
        ("m, 'text'", "gave inputs of type str"),
        ("m, (x,), [5]", "gave inputs of type int"),
        ("m, ()", "gave no inputs"),
        ("qnndbg.Target(m, ())", "gave no inputs"),
        ("qnndbg.Target('m', (x,))", "gave a module of type str"),
        ("m, (x, 3)", "input 1 is int, not a tensor"),
        ("m, (None, x)", "input 0 is NoneType, not a tensor"),
        ("m, (x, ['text'])", "input 1 is str, not a tensor"),
        ("m, (x, x.double())", "input 1 is float64, which QNN has no tensor type for"),
        ("m, (x.to(torch.complex64),)", "input 0 is complex64"),
        ("m, (x.bfloat16(),)", "input 0 is bfloat16"),
    ],
)
def test_what_a_factory_must_not_return(script: Path, expression: str, fact: str) -> None:
    with pytest.raises(UsageError, match=fact) as caught:
        returned(script, expression)
    assert caught.value.hint


def test_hint_tells_what_a_factory_returns(script: Path) -> None:
    with pytest.raises(UsageError) as caught:
        returned(script, "42")
    assert caught.value.hint == PROTOCOL
    assert "(module, inputs, calibration)" in PROTOCOL


@pytest.mark.parametrize(
    "expression", ["m, (x,), 5", "m, (x,), m", "m, (x,), x", "qnndbg.Target(m, (x,), 5)"]
)
def test_calibration_that_is_no_sequence_is_refused(script: Path, expression: str) -> None:
    with pytest.raises(UsageError):
        returned(script, expression)


def test_target_of_a_bare_tensor_is_called_with_that_tensor(script: Path) -> None:
    target = returned(script, "qnndbg.Target(m, torch.ones(3, 2))")
    inputs, _ = contiguous(target.inputs)
    assert [tuple(v.shape) for v in flatten(inputs)] == [(3, 2)]


def test_module_in_training_mode_is_taken(script: Path) -> None:
    assert returned(script, "nn.Dropout(), (x,)").module.training  # the lowering changes that, with a note


@pytest.mark.parametrize(
    ("spec", "fact"),
    [
        ("nowhere.py:make", r"there is no file nowhere\.py"),
        ("no_such_package.module:make", "there is no module 'no_such_package.module'"),
        ("no_such_module:make", "there is no module 'no_such_module'"),
        ("..:make", "there is no module"),
        ("example:no_such_example", "there is no example 'no_such_example'"),
        ("math:no_such_function", "math has no function 'no_such_function'"),
        ("math:pi", "math has no function 'pi'"),
    ],
)
def test_target_that_does_not_exist(spec: str, fact: str) -> None:
    with pytest.raises(UsageError, match=fact) as caught:
        load_target(spec)
    assert caught.value.hint


def test_examples_are_named_in_the_hint() -> None:
    with pytest.raises(UsageError) as caught:
        load_target("example:digit")
    assert "digits" in caught.value.hint


def test_functions_of_a_script_are_named_in_the_hint(script: Path) -> None:
    body = "def make_net(): pass\ndef other(): pass\ndef _hidden(): pass\nvalue = 3\n"
    with pytest.raises(UsageError, match="has no function 'make'") as caught:
        load(script, body)
    assert caught.value.hint == "it has: make_net, other"


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ("raise RuntimeError('no weights')\n", "cannot be imported: RuntimeError: no weights"),
        ("import no_such_package\n", "cannot be imported: ModuleNotFoundError: No module named"),
        ("def make(:\n", "cannot be imported: SyntaxError"),
        ("def make():\n    raise ValueError('bad shape')\n", r"make\(\) raised ValueError: bad shape"),
        ("def make(size):\n    return m, x\n", r"make\(\) raised TypeError: .*'size'"),
    ],
)
def test_user_code_that_raises(script: Path, body: str, fact: str) -> None:
    with pytest.raises(LoweringError, match=fact) as caught:
        load(script, body)
    assert caught.value.__cause__ is not None
    assert "traceback" in caught.value.hint


def test_error_that_user_code_made_for_the_user_goes_through(script: Path) -> None:
    body = "def make():\n    raise qnndbg.errors.UsageError('no weights', 'fetch them')\n"
    with pytest.raises(UsageError, match="no weights") as caught:
        load(script, body)
    assert caught.value.hint == "fetch them"


def test_script_finds_its_neighbours_and_its_own_classes(script: Path) -> None:
    (script.parent / "neighbour_of_the_script.py").write_text("SCALE = 3.0\n")
    body = (
        "import dataclasses, pickle\nfrom neighbour_of_the_script import SCALE\n"
        "@dataclasses.dataclass\nclass Config:\n    scale: float\n"
        "def make():\n    return m, x * pickle.loads(pickle.dumps(Config(SCALE))).scale\n"
    )
    assert flatten(load(script, body).inputs)[0].tolist() == [[3.0, 3.0]]


def test_package_is_imported_by_its_name() -> None:
    with pytest.raises(UsageError, match=r"flatten\(\) returned|has no function") as caught:
        load_target("qnndbg.pipeline.calls:flatten_nothing")
    assert "flatten" in caught.value.hint


def test_inputs_that_the_htp_would_misread_are_made_contiguous() -> None:
    image = torch.randn(2, 3, 4, 5)
    strange = image.to(memory_format=torch.channels_last)
    inputs, notes = contiguous((image, [strange, {"t": image.transpose(0, 1)}], image[:, :, ::2]))
    values = flatten(inputs)
    assert all(v.is_contiguous() for v in values)
    for found, expected in zip(
        values, flatten((image, [strange, image.transpose(0, 1)], image[:, :, ::2])), strict=True
    ):
        assert torch.equal(found, expected)
    assert set(notes) == {1, 2, 3}
    assert "channels_last" in notes[1]
    assert "strides (20, 60, 5, 1)" in notes[2]
    assert isinstance(inputs[1], list)


def test_contiguous_inputs_are_left_alone() -> None:
    x = torch.randn(2, 3)
    inputs, notes = contiguous((x, x > 0, torch.tensor(1.0)))
    assert notes == {}
    assert flatten(inputs)[0].data_ptr() == x.data_ptr()


def test_inputs_are_cut_off_from_whatever_made_them() -> None:
    (x,), notes = contiguous((torch.ones(2, requires_grad=True) * 2,))
    assert isinstance(x, torch.Tensor)
    assert (x.requires_grad, notes) == (False, {})


def test_samples_are_stacked_by_input() -> None:
    samples: list[tuple[object, ...]] = [(torch.full((1, 2), float(i)), torch.tensor(i)) for i in range(3)]
    first, second = stacked(Evaluation(inputs=samples, labels=[0, 1, 2]))
    assert (first.shape, second.tolist()) == ((3, 1, 2), [0, 1, 2])
    assert first[2].tolist() == [[2.0, 2.0]]


class Stateful(nn.Module):
    """Writes its buffer and its input."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        self.seen.add_(x)
        return {"sum": self.seen, "input": x.mul_(2), "none": None}


def test_call_leaves_no_trace() -> None:
    module, x = Stateful(), torch.ones(2)
    for _ in range(2):
        total, doubled, none = call(module, (x,))
        assert (total.tolist(), doubled.tolist(), none) == ([1.0, 1.0], [2.0, 2.0], None)
        assert not total.requires_grad
    assert (module.seen.tolist(), x.tolist()) == ([0.0, 0.0], [1.0, 1.0])


@pytest.mark.parametrize(("labels", "correct"), [([1, 0], 2), ([1, 1], 1), ([2, 2], 0)])
def test_prediction_is_the_largest_value(labels: list[int], correct: int) -> None:
    outputs = [torch.tensor([[0.1, 0.9, 0.2]]), torch.tensor([[3.0, 1.0, 2.0]])]
    assert count_correct(outputs, labels) == correct
