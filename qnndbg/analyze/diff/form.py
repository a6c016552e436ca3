"""A graph in canonical form: what each node is, in numbers that are equal where the things are.

Names are gone from it, but for those that a report shows. Numbers are given out by an ``Interner`` that all
graphs of one comparison share; they are compared with one another and mean nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from operator import attrgetter

from msgspec.structs import replace

from qnndbg.model.graph import Arg, Graph, Node, Ref, Seq, Slice

QUANTISE_OPS = "quantized_decomposed."
UNKNOWN = -1
"""Stands for a node that is not there."""
_HELD = frozenset({"parameter", "buffer", "constant"})
NAMED = frozenset({"placeholder", "get_attr", "call_module"})
"""Ops whose target is a name."""


class Interner(defaultdict[Hashable, int]):
    """Gives equal things the same number, and a new thing the next one."""

    def __init__(self) -> None:
        super().__init__(count().__next__)

    def text(self, number: int) -> str:
        """What the number stands for; unlike the number, the same whatever came before it."""
        return repr(next(islice(self, number, None)))


@dataclass(slots=True)
class Form:
    """A graph in canonical form; all lists are by the node's position."""

    names: list[str]
    exact: list[int]
    """All that a node is by itself: op, literals, dtypes, shapes, encodings, constant."""
    kind: list[int]
    """What it does: its op."""
    refs: list[tuple[int, ...]]
    """The nodes that it reads, in the order of its arguments."""
    thin: list[bool]
    """Quantise ops and the like, which leave the value what it is."""
    readers: list[list[tuple[int, int]]] = field(default_factory=list)
    """The nodes that read it, and at which place of theirs."""
    up: list[int] = field(default_factory=list)
    """See :func:`upward`; empty until it was asked for."""
    down: list[int] = field(default_factory=list)


def comparable(graph: Graph) -> Graph:
    """The graph without the value of its end, which is there only behind a pass that traces anew."""
    ends = [node for node in graph.nodes if node.op == "output" and (node.outputs or node.multiple)]
    if not ends:
        return graph
    bare = (replace(n, outputs=(), multiple=False) if n.op == "output" else n for n in graph.nodes)
    return replace(graph, nodes=tuple(bare))


def form_of(graph: Graph, intern: Interner) -> Form:
    """Bring a graph to canonical form."""
    number: dict[str, int] = {}
    requantized = {node.name: node.requantize for node in graph.nodes if node.requantize}
    inputs = 0
    form = Form([node.name for node in graph.nodes], [], [], [], [])
    for i, node in enumerate(graph.nodes):
        refs, bare = _arguments(graph, node)
        if requantized:
            own = sorted(node.requantize.values(), key=repr)
            bare = bare, *own, *[requantized[ref].get(node.name) for ref in refs if ref in requantized]
        if node.role == "input":
            inputs += 1
            bare = inputs
        elif node.op == "get_attr":
            bare = graph.partitions.get(node.target, UNKNOWN)
        form.exact.append(intern[node.op, _target(node), *properties(node), bare])
        form.kind.append(intern[_kind(node)])
        form.thin.append(node.layout_permute or node.target.startswith(QUANTISE_OPS))
        form.refs.append(tuple([number.get(ref, UNKNOWN) for ref in refs]))
        number[node.name] = i
    form.readers = _readers(form.refs)
    return form


def _arguments(graph: Graph, node: Node) -> tuple[list[str], Hashable]:
    """The nodes that a node reads, and the rest of its arguments."""
    refs: list[str] = []
    if node.op == "output":
        bare = [(o.role, _bare(o.value, refs), _bare(Ref(o.target), refs)) for o in graph.outputs]
        return refs, tuple(bare)
    args = tuple([_bare(arg, refs) for arg in node.args])
    if node.kwargs:
        return refs, (args, tuple([(key, _bare(node.kwargs[key], refs)) for key in sorted(node.kwargs)]))
    return refs, args


def joined(forms: list[Form]) -> Form:
    """Several forms as one, in which they have no edge in common."""
    whole = Form([], [], [], [], [])
    for part in forms:
        start = len(whole.exact)
        whole.names += part.names
        whole.exact += part.exact
        whole.kind += part.kind
        whole.thin += part.thin
        whole.refs += [tuple(r + start if r >= 0 else r for r in refs) for refs in part.refs]
    whole.readers = _readers(whole.refs)
    return whole


def upward(form: Form, intern: Interner) -> list[int]:
    """For each node a number of everything that it is computed from, itself included."""
    if not form.up:
        ids: list[int] = []
        for own, refs in zip(form.exact, form.refs, strict=True):
            ids.append(intern[own, "up", *[ids[ref] if ref >= 0 else UNKNOWN for ref in refs]])
        form.up = ids
    return form.up


def downward(form: Form, intern: Interner) -> list[int]:
    """For each node a number of everything that is computed from it, itself included."""
    if not form.down:
        ids = [UNKNOWN] * len(form.exact)
        for i in range(len(ids) - 1, -1, -1):
            readers = sorted([(ids[user], place) for user, place in form.readers[i]])
            ids[i] = intern[form.exact[i], "down", *readers]
        form.down = ids
    return form.down


def shapes(form: Form, intern: Interner) -> list[tuple[int, int]]:
    """For each node the ops above and the ops below it, as two numbers.

    Quantise ops and the permutes of a layout pass are looked through, since a recipe puts them anywhere.
    """
    above, through = [], list[int]()
    for kind, refs, thin in zip(form.kind, form.refs, form.thin, strict=True):
        number = intern[kind, "above", *[through[ref] if ref >= 0 else UNKNOWN for ref in refs]]
        above.append(number)
        through.append(through[refs[0]] if thin and refs and refs[0] >= 0 else number)
    below = [UNKNOWN] * len(form.kind)
    reached: list[list[tuple[int, int]]] = [[] for _ in form.kind]
    for i in range(len(below) - 1, -1, -1):
        for user, place in form.readers[i]:
            reached[i] += reached[user] if form.thin[user] else [(below[user], place)]
        below[i] = intern[form.kind[i], "below", *sorted(reached[i])]
    return list(zip(above, below, strict=True))


def same_graphs(a: Form, b: Form, intern: Interner) -> bool:
    """Both compute the same in the same way, whatever the names and the order of independent nodes."""
    if len(a.exact) != len(b.exact):
        return False
    if a.exact == b.exact and a.refs == b.refs:
        return True
    if sorted(a.exact) != sorted(b.exact):
        return False
    left, right = (sorted(zip(upward(form, intern), downward(form, intern), strict=True)) for form in (a, b))
    return left == right


def _readers(refs: list[tuple[int, ...]]) -> list[list[tuple[int, int]]]:
    readers: list[list[tuple[int, int]]] = [[] for _ in refs]
    for user, read in enumerate(refs):
        for place, ref in enumerate(read):
            if ref >= 0:
                readers[ref].append((user, place))
    return readers


properties = attrgetter(
    *("outputs", "multiple", "encoding", "axis_order", "layout_permute", "quantized_io", "role", "constant")
)
"""What a node is, without names, op, target, arguments and edges."""


def _target(node: Node) -> str:
    return "" if node.op in NAMED else node.target


def _kind(node: Node) -> Hashable:
    """What a node does; what holds a weight does so under whatever role."""
    if node.constant is not None or node.role in _HELD:
        return "held"
    return node.op, _target(node), node.role


def _bare(arg: Arg, refs: list[str]) -> Hashable:
    """An argument with its references taken out, told from those that Python holds for equal (1 and True)."""
    kind = type(arg)
    if kind is int or kind is str or arg is None:
        return arg
    if isinstance(arg, Ref):
        refs.append(arg.node)
        return Ref
    if isinstance(arg, Seq):
        return (Seq, *[_bare(item, refs) for item in arg.items])
    if isinstance(arg, Slice):
        return (Slice, *[_bare(part, refs) for part in (arg.start, arg.stop, arg.step)])
    if isinstance(arg, float):
        return (float, arg.hex())
    return (bool, arg) if isinstance(arg, bool) else arg


def literals(node: Node) -> Iterator[tuple[str, Arg]]:
    """Where a node's arguments stand, and what they are; sequences are taken apart, references kept."""
    for i, arg in enumerate(node.args):
        yield from _leaves(f"args[{i}]", arg)
    for key in sorted(node.kwargs):
        yield from _leaves(key, node.kwargs[key])


def _leaves(place: str, arg: Arg) -> Iterator[tuple[str, Arg]]:
    if isinstance(arg, Seq) and any(isinstance(item, Ref | Seq | Slice) for item in arg.items):
        for i, item in enumerate(arg.items):
            yield from _leaves(f"{place}[{i}]", item)
    else:
        yield place, arg
