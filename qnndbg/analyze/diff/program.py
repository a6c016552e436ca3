"""What surrounds the graphs: environment, methods of the program, fallbacks, sizes, accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qnndbg.analyze.diff.sides import Sides
from qnndbg.model.diff import Change, FallbackDiff, Scalar
from qnndbg.model.diff import Side as Page
from qnndbg.model.recording import Fallback, Manifest, Method, Port
from qnndbg.recording.store import Recording


def page_of(recording: Recording) -> Page:
    """Which recording it is."""
    manifest = recording.manifest
    failure = manifest.failure
    return Page(
        target=manifest.target,
        precision=manifest.precision,
        soc=manifest.soc,
        complete=manifest.complete,
        failure=f"{failure.step}: {failure.error}" if failure else "",
    )


def environment_changes(a: Manifest, b: Manifest) -> tuple[Change, ...]:
    """The environment, and with what the recordings were made."""
    return tuple(_changes(_environment(a), _environment(b)))


def _environment(manifest: Manifest) -> dict[str, Scalar]:
    environment = manifest.environment
    return {
        "target": manifest.target,
        "precision": manifest.precision,
        "soc": manifest.soc,
        "qnndbg": environment.qnndbg,
        "python": environment.python,
        "host": environment.host,
        **dict(sorted(environment.packages.items())),
        "QNN": environment.qnn_build,
        "SDK found by": environment.sdk,
        "op packages": ", ".join(manifest.op_packages),
    }


def _changes(a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> Iterator[Change]:
    shared = [key for key in a if key in b]
    others = sorted({*a, *b} - {*shared})
    for key in [*shared, *others]:
        if a.get(key) != b.get(key):
            yield Change(what=key, a=a.get(key), b=b.get(key))


def method_changes(a: Manifest, b: Manifest) -> tuple[Change, ...]:
    """Number of partitions, and what the program takes and gives, of each method."""
    sides = [{method.name: method for method in page.methods} for page in (a, b)]
    found: list[Change] = []
    for name in sorted({*sides[0], *sides[1]}):
        left, right = (_facts(name, side.get(name)) for side in sides)
        found += _changes(left, right)
    return tuple(found)


def _facts(name: str, method: Method | None) -> dict[str, Scalar]:
    if method is None:
        return {f"{name}: partitions": None}
    ports = {"input": method.inputs, "output": method.outputs}
    return {
        f"{name}: partitions": method.partitions,
        **{f"{name}: {kind} {i}": _port(p) for kind, found in ports.items() for i, p in enumerate(found)},
    }


def _port(port: Port | None) -> str:
    return f"{port.dtype} {list(port.shape)}" if port else "no tensor"


def fallback_diffs(sides: Sides) -> tuple[FallbackDiff, ...]:
    """Ops that stay on the CPU on one side only, or for another reason."""
    found: list[FallbackDiff] = []
    left, right = ({m.name: m.fallbacks for m in s.recording.manifest.methods} for s in (sides.a, sides.b))
    for method in sorted({*left, *right}):
        found += _of_method(sides, method, left.get(method, ()), right.get(method, ()))
    return tuple(found)


def _of_method(
    sides: Sides, method: str, a: tuple[Fallback, ...], b: tuple[Fallback, ...]
) -> Iterator[FallbackDiff]:
    if a == b:
        return
    partners = _edge_partners(sides, method)
    rest = {fallback.node: fallback for fallback in b}
    for fallback in a:
        match = rest.pop(partners.get(fallback.node, ""), None)
        if match is None or (match.op, match.reason) != (fallback.op, fallback.reason):
            yield FallbackDiff(method=method, a=fallback, b=match)
    for fallback in rest.values():
        yield FallbackDiff(method=method, a=None, b=fallback)


def _edge_partners(sides: Sides, method: str) -> dict[str, str]:
    """Node of A's edge graph, as it went to the partitioner, to the node of B's."""
    digests = [
        next((e.after for e in reversed(s.events(method)) if e.stage == "transform" and e.after), "")
        for s in (sides.a, sides.b)
    ]
    if not all(digests):
        return {}
    a, b = (s.graph(digest).nodes for s, digest in zip((sides.a, sides.b), digests, strict=True))
    if digests[0] == digests[1]:
        return {node.name: node.name for node in a}
    partners = sides.pair(digests[0], digests[1], method, "transform").to_b
    return {node.name: b[j].name for node, j in zip(a, partners, strict=True) if j >= 0}


def size_changes(a: Recording, b: Recording) -> tuple[Change, ...]:
    """Bytes of the programs, and how many QNN ops there are."""
    return tuple(_changes(_sizes(a), _sizes(b)))


def _sizes(recording: Recording) -> dict[str, Scalar]:
    programs = sorted((recording.folder / "programs").glob("*.pte"))
    sizes: dict[str, Scalar] = {f"bytes of {path.stem}": path.stat().st_size for path in programs}
    return {**sizes, "QNN ops": sum(len(graph.ops) for graph in recording.qnn)}


def accuracy_changes(a: Manifest, b: Manifest) -> tuple[Change, ...]:
    """How many samples each runner gets right."""
    pages = [{"samples": p.accuracy.samples, **p.accuracy.correct} if p.accuracy else {} for p in (a, b)]
    return tuple(_changes(*pages))
