"""Graphs to walk in: snapshots and QNN graphs in one form, each node with what it reads and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from qnndbg.model.graph import Arg, Atom, Graph, Node, QuantParams, Ref, Seq, Slice, TensorSpec
from qnndbg.model.recording import QnnGraph, QnnOp, QnnTensor
from qnndbg.report import units


@dataclass(frozen=True, slots=True)
class Stop:
    """A node, or a QNN tensor with the op that makes it."""

    name: str
    op: str
    kind: str
    """``op``, ``input``, ``weight`` or ``output``."""
    value: str
    """Dtype and shape."""
    inputs: tuple[str, ...]
    arguments: str
    """Arguments or parameters that are no other node, as a call is written."""
    encoding: QuantParams | None = None
    module: str = ""
    source: str = ""
    created_by: str = ""
    tensors: tuple[str, ...] = ()
    """The QNN tensors that it became; of a QNN tensor, its node."""
    ancestors: tuple[str, ...] = ()


class Stops(Mapping[str, Stop]):
    """The values of a graph by name, each made when it is first looked at: a graph may have thousands.

    Args:
        makers: what makes each, in order of execution.
    """

    def __init__(self, makers: dict[str, Callable[[], Stop]]) -> None:
        self._makers = makers
        self._made: dict[str, Stop] = {}

    def __getitem__(self, name: str) -> Stop:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class Walk:
    """A graph in order of execution.

    Args:
        makers: what makes each value.
        edges: the name of each value with those that it reads.
    """

    def __init__(
        self,
        makers: dict[str, Callable[[], Stop]] | None = None,
        edges: Callable[[], Iterable[tuple[str, Iterable[str]]]] = tuple,
    ) -> None:
        self.stops = Stops(makers or {})
        self._edges = edges

    @cached_property
    def users(self) -> dict[str, tuple[str, ...]]:
        """Who reads a value."""
        users: dict[str, list[str]] = {name: [] for name in self.stops}
        for reader, names in self._edges():
            for name in dict.fromkeys(names):
                if name in users:
                    users[name].append(reader)
        return {name: tuple(readers) for name, readers in users.items()}


def walk_of_graph(graph: Graph) -> Walk:
    """A snapshot."""
    makers: dict[str, Callable[[], Stop]] = {node.name: partial(stop_of, node) for node in graph.nodes}
    outputs = {f"output {number}": output for number, output in enumerate(graph.outputs)}
    for name, output in outputs.items():
        read = tuple(refs(output.value))
        makers[name] = partial(Stop, name, output.role, "output", output.target, read, "")

    def edges() -> Iterator[tuple[str, Iterable[str]]]:
        yield from ((node.name, _inputs(node)) for node in graph.nodes)
        yield from ((name, refs(output.value)) for name, output in outputs.items())

    return Walk(makers, edges)


def _inputs(node: Node) -> tuple[str, ...]:
    """The nodes that a node reads."""
    return tuple(dict.fromkeys(name for arg in (*node.args, *node.kwargs.values()) for name in refs(arg)))


def stop_of(node: Node) -> Stop:
    """One node of a snapshot."""
    kind = "op" if node.op.startswith("call") else "weight" if node.constant else "input"
    return Stop(
        name=node.name,
        op=node.target if kind == "op" else node.role or node.op,
        kind=kind,
        value=", ".join(spec_text(spec) for spec in node.outputs if spec is not None),
        inputs=_inputs(node),
        arguments=arguments(node) if kind == "op" else "",
        encoding=node.encoding,
        module=node.origin.module_path,
        source=node.origin.source,
        created_by=node.origin.created_by,
        tensors=tuple(name for name in node.tensors if name),
        ancestors=node.origin.ancestors,
    )


def walk_of_qnn(graph: QnnGraph) -> Walk:
    """A QNN graph; what is walked are its tensors, each with the op that makes it."""
    makers = {name: op for op in graph.ops for name in op.outputs}
    given = [t.name for t in graph.tensors if t.name not in makers]
    tensors = {t.name: t for t in graph.tensors}
    names = (*given, *(n for op in graph.ops for n in op.outputs))
    return Walk(
        {name: partial(_stop_of_tensor, tensors[name], makers.get(name)) for name in names},
        lambda: ((name, op.inputs) for op in graph.ops for name in op.outputs),
    )


def _stop_of_tensor(tensor: QnnTensor, maker: QnnOp | None) -> Stop:
    kinds = {"input": "input", "static": "weight", "output": "op"}
    params = "" if maker is None else ", ".join(f"{k}={v}" for k, v in sorted(maker.params.items()))
    return Stop(
        name=tensor.name,
        op=maker.type if maker is not None else tensor.kind,
        kind="op" if maker is not None else kinds.get(tensor.kind, "input"),
        value=f"{units.dtype(tensor.dtype)} {shape_text(tensor.shape)}",
        inputs=() if maker is None else maker.inputs,
        arguments=params,
        encoding=tensor.encoding,
        tensors=(tensor.node,) if tensor.node else (),
    )


def refs(arg: Arg) -> list[str]:
    """The nodes that an argument names."""
    if isinstance(arg, Ref):
        return [arg.node]
    if isinstance(arg, Seq):
        return [name for item in arg.items for name in refs(item)]
    return []


def arguments(node: Node) -> str:
    """The arguments of a call."""
    parts = [argument(arg) for arg in node.args]
    return ", ".join([*parts, *(f"{key}={argument(arg)}" for key, arg in node.kwargs.items())])


def argument(arg: Arg) -> str:
    """An argument as it is written."""
    match arg:
        case Ref(node=name):
            return name
        case Atom(text=text):
            return text
        case Seq(items=items):
            return f"[{', '.join(argument(item) for item in items)}]"
        case Slice(start=start, stop=stop, step=step):
            return f"slice({argument(start)}, {argument(stop)}, {argument(step)})"
        case float():
            return f"{arg:.6g}"
        case _:
            return repr(arg)


def shape_text(shape: tuple[int | str, ...]) -> str:
    """A shape, as in ``1×3×16``; a scalar has ``()``."""
    return "×".join(map(str, shape)) or "()"


SHORT = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i"}


def spec_text(spec: TensorSpec) -> str:
    """Dtype and shape of a value."""
    return f"{torch_dtype(spec.dtype)} {shape_text(spec.shape)}"


def torch_dtype(name: str) -> str:
    """A short form of torch's name: ``f32`` of ``float32``."""
    stem = name.rstrip("0123456789")
    return SHORT[stem] + name[len(stem) :] if stem in SHORT and stem != name else name


def encoding_text(encoding: QuantParams | None) -> str:
    """Scale and zero point, or how many of them."""
    if encoding is None:
        return units.NONE
    if len(encoding.scales) == 1:
        return f"{encoding.scales[0]:.4g} zp {encoding.zero_points[0]}"
    low, high = min(encoding.scales), max(encoding.scales)
    return f"{low:.3g}…{high:.3g} ×{len(encoding.scales)}"
