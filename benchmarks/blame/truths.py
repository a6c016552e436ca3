"""The answers of a case registry, from its ``truth.csv``."""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.blame.answer import Answer
from qnndbg.model.result import VerdictKind

KINDS: dict[str, tuple[VerdictKind, ...]] = {
    "BACKEND": ("backend", "dtype"),
    "FORMAT": ("format",),
    "INPUT": ("input",),
    "AMPLIFY": ("amplification",),
    "CRASH": ("lowering",),
    "RUNTIME": ("lowering",),
    "FALLBACK": ("clean", "graph"),
}
"""Kind of a fault to the classes that are right; narrowing integers is the lowering's own doing."""
CULPRITS: dict[str, tuple[str, ...]] = {
    "graph input": ("input",),
    "graph input cast": ("input",),
    "i64->i32 input cast": ("input", "pass:I64toI32"),
    "topk output 1": ("op:topk", "output:1"),
    "sort output 1": ("op:sort", "output:1"),
    "op_pad builder": ("op:pad", "op:constant_pad_nd"),
    "partitioner": ("stage",),
    "partition tagging": ("stage",),
    "graph I/O check": ("stage",),
    "dtype map": ("names:bfloat16",),
    "div -> floor": ("op:div", "op:floor", "op:floor_divide"),
    "int->float cast": ("op:_to_copy", "op:_to_dim_order_copy"),
    "exp (softplus)": ("op:exp",),
}
"""Words for a culprit to rules; any other word is the name of an op."""


def read_truths(folder: Path) -> dict[str, Answer]:
    """The answer of each case of a registry by its name."""
    with (folder / "truth.csv").open(newline="") as file:
        return {row["name"]: _answer(row) for row in csv.DictReader(file)}


def _answer(row: dict[str, str]) -> Answer:
    if row["visible"] == "RECIPE":
        return Answer(kinds=("quantisation",))
    if row["visible"] not in {"FAULT", "FALLBACK"}:
        return Answer(kinds=("clean",))
    kind, node = row["truth_kind"], row["truth_node"]
    culprits = CULPRITS.get(node, (f"op:{node}",))
    if kind == "RUNTIME":  # what the runtime has no kernel for
        culprits = tuple(f"op:{op.split('.')[1]}" for op in row["cpu_ops"].split())
    if kind in {"AMPLIFY", "FALLBACK"}:
        culprits = ()
    return Answer(kinds=KINDS[kind], culprits=culprits, note=row["truth_cause"])
