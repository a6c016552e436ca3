"""Digests of what a graph computes, by its canonical form; unlike its numbers, these outlive the process."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from qnndbg.analyze.diff.form import Interner, downward, form_of, upward
from qnndbg.model.graph import Graph
from qnndbg.recording import schema

HEX = 16
"""Characters of a digest: 64 bits, enough to tell the snapshots of two lowerings apart."""


class DigestInterner(Interner):
    """Gives a thing a number that depends on nothing but the thing."""

    def __missing__(self, thing: Hashable) -> int:
        """The number of a new thing: the digest of its JSON."""
        data = msgspec.json.encode(thing, enc_hook=_named)
        number = self[thing] = int(schema.digest(data)[:HEX], 16)
        return number


def _named(kind: object) -> dict[str, str]:
    """Canonical form marks arguments with their types."""
    if isinstance(kind, type):
        return {"type": kind.__name__}
    raise TypeError(f"no JSON for {kind!r}")


def structure(graph: Graph, intern: DigestInterner) -> str:
    """Digest of a graph, equal if :func:`qnndbg.analyze.diff.form.same_graphs` holds the two for the same."""
    form = form_of(graph, intern)
    ids = sorted(zip(upward(form, intern), downward(form, intern), strict=True))
    return schema.digest(schema.encode(ids))[:HEX]
