"""The CPU reference: runs a stored graph with torch, in quantised, executed or float meaning.

Quantised values are held as the real numbers that they stand for: a quantise op rounds to the
encoding's grid and a dequantise op then has nothing left to do, so graphs with explicit q/dq nodes
and graphs where these were folded into encodings mean the same here. Rounding uses torch's own
quantise and dequantise operators, so the result is bit-equal to what ``convert_pt2e`` returned.

In a graph of stored layout every value is held in the layout in which QNN stores it; an op undoes
the layout of its inputs, which is its own axis order, and applies it to its output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from qnndbg.execute.encoding import dequantise, fake_quantise
from qnndbg.execute.operators import find_operator, may_be_random, mutates
from qnndbg.model.graph import Arg, Atom, Graph, Node, QuantParams, Ref, Seq, Slice, TensorRef
from qnndbg.model.recording import RANDOM

Meaning = Literal["quantised", "executed", "float"]
"""Whether each encoding rounds; only the q/dq ops do, as where ExecuTorch's CPU executes a graph whose other
q/dq ops were folded into encodings; or nothing does."""
SAME_DTYPE = {"convolution", "conv1d", "conv2d", "conv3d", "linear", "mm", "bmm", "addmm", "matmul"}
"""Ops that torch refuses to compute of two dtypes, as half floats and dequantised weights are."""
DELEGATE = "higher_order.executorch_call_delegate"


class MissingError(Exception):
    """A value that an op needs could not be computed."""


@dataclass(slots=True)
class Walk:
    """One evaluation of a graph."""

    values: dict[tuple[str, int], Any] = field(default_factory=dict)
    """What each op computed, by node and output, before any replacement."""
    results: list[Any] = field(default_factory=list)
    """The user outputs; None for one that could not be computed."""
    problems: dict[str, str] = field(default_factory=dict)
    """Node to the reason why it was not evaluated."""
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    """New value of each state that the graph writes, by placeholder."""


@dataclass(frozen=True, slots=True)
class Computed:
    """One output of a node, or the value of a placeholder or get_attr, as a walk has it."""

    node: Node
    output: int
    value: torch.Tensor | None
    """Rounded to its encoding if it has one; None if it could not be computed."""
    exact: torch.Tensor | None
    """The same before it was rounded."""
    encoding: QuantParams | None = None
    """What the output is to be rounded to."""


Replace = Callable[[Computed], torch.Tensor | None]
"""Gives the value with which the walk goes on instead of the computed one."""
CallPartition = Callable[[int, Sequence[Any]], Sequence[Any]]


def evaluate(
    graph: Graph,
    inputs: Sequence[Any],
    load: Callable[[TensorRef], torch.Tensor],
    *,
    meaning: Meaning = "quantised",
    replace: Replace | None = None,
    call_partition: CallPartition | None = None,
) -> Walk:
    """Run a graph on the CPU.

    Args:
        graph: of any stage.
        inputs: a value for each placeholder of role ``input``, in order; without those of what is no tensor,
            whose values export has put into the ops.
        load: gives the tensor behind a reference.
        meaning: what of quantisation rounds.
        replace: sees every value, inputs and constants among them, and gives the one to go on with.
        call_partition: computes the outputs of a delegate from its number and inputs.
    """
    return _Evaluator(graph, load, meaning, replace, call_partition).run(inputs)


def taken(graph: Graph, count: int) -> list[Node]:
    """The placeholders that so many tensors are for; if there are more, some are of what is no tensor."""
    inputs = [node for node in graph.nodes if node.op == "placeholder" and node.role == "input"]
    return inputs if len(inputs) <= count else [node for node in inputs if any(node.outputs)]


class _Evaluator:
    def __init__(
        self,
        graph: Graph,
        load: Callable[[TensorRef], torch.Tensor],
        meaning: Meaning,
        replace: Replace | None,
        call_partition: CallPartition | None,
    ) -> None:
        self.graph, self.load, self.meaning = graph, load, meaning
        self.replace, self.call_partition = replace, call_partition
        self.nodes = {node.name: node for node in graph.nodes}
        self.env: dict[str, Any] = {}
        self.walk = Walk()
        self.picked = _encodings_of_picked_outputs(graph)
        self.rounded_within = _delegates_outputs(graph)
        # What an op in place writes to is shared, so everything that is to stay as it was is copied.
        self.copies = any(mutates(node.target) for node in graph.nodes if node.op == "call_function")

    def run(self, inputs: Sequence[Any]) -> Walk:
        given = dict(zip((node.name for node in taken(self.graph, len(inputs))), inputs, strict=False))
        for node in self.graph.nodes:
            if node.op == "placeholder" and node.role == "input":
                if node.name in given:
                    self._given(node, given[node.name])
            elif node.op in {"placeholder", "get_attr"}:
                if node.constant is not None:
                    self._given(node, self.load(node.constant))
            elif node.op != "output":
                self._call(node)
        self._finish()
        return self.walk

    def _given(self, node: Node, value: Any) -> None:
        if self.replace is not None and isinstance(value, torch.Tensor):
            value = self.replace(Computed(node, 0, value, value))
        self.env[node.name] = self._own(value)

    def _own(self, value: Any) -> Any:
        return value.clone() if self.copies and isinstance(value, torch.Tensor) else value

    def _input(self, node: Node, value: torch.Tensor) -> torch.Tensor:
        """An input or a state as an op reads it; as an output of the graph it is what it was."""
        if node.encoding is None or self.meaning != "quantised":
            return value
        return (
            fake_quantise(value, node.encoding)
            if value.is_floating_point()
            else dequantise(value, node.encoding)
        )

    def _call(self, node: Node) -> None:
        try:
            self._note(node, self._computed(node))
        except Exception as error:  # noqa: BLE001 operators refuse foreign arguments in any way they like
            # That one node is then a listed reason, and everything else is still evaluated.
            self.walk.problems[node.name] = (str(error) or type(error).__name__).split("\n", 1)[0]
            self._note(node, [None] * len(node.outputs) if node.multiple else None)

    def _note(self, node: Node, value: Any) -> None:
        # A pass that drops an op's second output may leave it described as an op of one.
        if node.multiple or isinstance(value, (list, tuple)):
            items = value if isinstance(value, (list, tuple)) else [value]
            self.env[node.name] = [self._keep(node, i, item) for i, item in enumerate(items)]
        elif (kept := self._keep(node, 0, value)) is not None:
            self.env[node.name] = kept

    def _keep(self, node: Node, output: int, value: Any) -> Any:
        """Round and lay out one output, note it, and go on with its replacement if there is one."""
        exact, encoding = value, None
        if isinstance(value, torch.Tensor):
            exact = self._stored(node, value)
            if node.name not in self.rounded_within:  # what is noted there is that of the op within
                encoding = self.picked.get((node.name, output), None if node.multiple else node.encoding)
            value = self._stored(node, self._rounded(value, encoding))
            self.walk.values[node.name, output] = self._own(value)
        if self.replace is None or not (value is None or isinstance(value, torch.Tensor)):
            return value
        return self.replace(Computed(node, output, value, exact, encoding))

    def _rounded(self, value: torch.Tensor, encoding: QuantParams | None) -> torch.Tensor:
        if encoding is None or self.meaning != "quantised" or not value.is_floating_point():
            return value
        return fake_quantise(value, encoding)

    def _computed(self, node: Node) -> Any:
        if node.op != "call_function":
            if node.op == "call_module" and not node.outputs:
                return None  # torch's own input guards
            raise MissingError(f"{node.op} {node.target} is not a graph operator")
        args = [self._arg(arg, node) for arg in node.args]
        if node.target == DELEGATE:
            return self._delegate(node, args)
        kind = node.target.split(".")[1] if node.target.count(".") > 1 else ""
        if kind.startswith("quantize_"):
            return self._quantise(node, args)
        if kind.startswith("dequantize_") and args[0].is_floating_point():
            return args[0]
        function = find_operator(node.target)
        if function is None:
            raise MissingError(f"{node.target} is not in a known operator namespace")
        kwargs = {key: self._arg(arg, node) for key, arg in node.kwargs.items()}
        if may_be_random(node.target) and not mutates(node.target):
            _refuse_random(function, args, kwargs)
        return function(*(_widened(args) if kind in SAME_DTYPE else args), **kwargs)

    def _quantise(self, node: Node, args: Sequence[Any]) -> Any:
        if self.meaning == "float":
            return args[0]
        if node.encoding is not None and self.meaning == "quantised":
            return args[0]  # rounded to its encoding like any other op's output
        quantised = find_operator(node.target)
        back = find_operator(node.target.replace(".quantize_", ".dequantize_"))
        if quantised is None or back is None:
            raise MissingError(f"{node.target} is not in a known operator namespace")
        return back(quantised(*args), *args[1:])

    def _delegate(self, node: Node, args: Sequence[Any]) -> Any:
        attribute = node.args[0]
        number = (
            self.graph.partitions.get(self.nodes[attribute.node].target)
            if isinstance(attribute, Ref)
            else None
        )
        if number is None or self.call_partition is None:
            raise MissingError("the delegate's partition was not recorded")
        return list(self.call_partition(number, args[1:]))

    def _arg(self, arg: Arg, user: Node) -> Any:
        if isinstance(arg, Ref):
            return self._value(arg, user)
        if isinstance(arg, Seq):
            return [self._arg(item, user) for item in arg.items]
        if isinstance(arg, Slice):
            return slice(self._arg(arg.start, user), self._arg(arg.stop, user), self._arg(arg.step, user))
        return _literal(arg) if isinstance(arg, Atom) else arg

    def _value(self, ref: Ref, user: Node) -> Any:
        maker = self.nodes[ref.node]
        if user.target == DELEGATE and maker.op == "get_attr":
            return None
        if ref.node not in self.env:
            raise MissingError(f"its input {ref.node} was not evaluated")
        value = self.env[ref.node]
        if not isinstance(value, torch.Tensor):
            return value
        if maker.constant is not None and maker.role != "state":
            return self._constant(maker, value, user)
        if maker.op == "placeholder":
            value = self._input(maker, value)
        return self._logical(user, self._requantised(maker, value, user))

    def _requantised(self, maker: Node, value: Any, user: Node | None) -> Any:
        """A value as a user reads it that has an encoding of its own for it."""
        encoding = maker.requantize.get(user.name) if user is not None else None
        return self._rounded(value, encoding) if isinstance(value, torch.Tensor) else value

    def _constant(self, maker: Node, value: torch.Tensor, user: Node) -> torch.Tensor:
        if maker.encoding is None or ".dequantize_" in user.target:
            return value
        if not value.is_floating_point():
            return dequantise(value, maker.encoding)
        return self._rounded(value, maker.encoding)

    def _logical(self, user: Node, value: torch.Tensor) -> torch.Tensor:
        order = user.axis_order
        if (
            not self.graph.stored_layout
            or order is None
            or value.dim() != len(order)
            or user.target == "operator.getitem"
        ):
            return value
        return _canonical(value.permute([order.index(i) for i in range(len(order))]))

    def _stored(self, node: Node, value: torch.Tensor) -> torch.Tensor:
        order = node.axis_order
        if (
            not self.graph.stored_layout
            or order is None
            or value.dim() != len(order)
            or node.target == "operator.getitem"
        ):
            return value
        return _canonical(value.permute(order))

    def _finish(self) -> None:
        reader = next((node for node in self.graph.nodes if node.op == "output"), None)
        for output in self.graph.outputs:
            value: Any = output.value
            if isinstance(value, Ref):
                value = self._requantised(self.nodes[value.node], self.env.get(value.node), reader)
            if output.role == "mutation":
                if isinstance(value, torch.Tensor):
                    self.walk.state[output.target] = value
            else:
                self.walk.results.append(value)


def _widened(args: Sequence[Any]) -> Sequence[Any]:
    """Half floats as float32, if there are both."""
    dtypes = {arg.dtype for arg in args if isinstance(arg, torch.Tensor)}
    if not dtypes >= {torch.float16, torch.float32}:
        return args
    return [arg.float() if isinstance(arg, torch.Tensor) else arg for arg in args]


def _canonical(value: torch.Tensor) -> torch.Tensor:
    """Contiguous, since kernels for other strides round differently.

    A copy, as ``contiguous`` leaves a tensor alone whose strides are odd in axes of length 1 only, by which
    a convolution takes it for channels_last.
    """
    return value.clone(memory_format=torch.contiguous_format)


def _refuse_random(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Two draws of one op are two values, neither of which is a reference for the other."""
    draws = [torch.utils._pytree.tree_leaves(function(*args, **kwargs)) for _ in range(2)]
    tensors = [(a, b) for a, b in zip(*draws, strict=True) if isinstance(a, torch.Tensor)]
    if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in tensors):
        raise MissingError(RANDOM)


def _encodings_of_picked_outputs(graph: Graph) -> Mapping[tuple[str, int], QuantParams]:
    """The encoding of each output of a multi-output node; it stands on the getitem that picks it."""
    found = {}
    for node in graph.nodes:
        if node.target == "operator.getitem" and node.encoding is not None:
            source, index = node.args[0], node.args[1]
            if isinstance(source, Ref) and isinstance(index, int):
                found[source.node, index] = node.encoding
    return found


def _delegates_outputs(graph: Graph) -> set[str]:
    """The delegates and the nodes that pick their outputs, which have been rounded within."""
    calls = {node.name for node in graph.nodes if node.target == DELEGATE}
    return calls | {
        node.name
        for node in graph.nodes
        if node.target == "operator.getitem" and isinstance(node.args[0], Ref) and node.args[0].node in calls
    }


def _literal(atom: Atom) -> Any:
    if atom.kind == "float":
        return float(atom.text)
    if atom.kind == "complex":
        return complex(atom.text)
    if atom.kind == "device":
        return torch.device("cpu")
    if atom.kind in {"dtype", "layout", "memory_format"}:
        found = getattr(torch, atom.text, None)
        if isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
            return found
    raise MissingError(f"its argument {atom.text} ({atom.kind}) has no value outside of the lowering")
