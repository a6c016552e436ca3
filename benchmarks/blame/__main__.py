"""Measures how often the verdict names the right class and the right culprit.

python -m benchmarks.blame --cases DIR             # a registry of cases with known answers
python -m benchmarks.blame --seed 0 --count 110    # faults seeded into random small nets
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from benchmarks.blame import peer, registry, seeded
from benchmarks.blame.forking import forked_jobs
from benchmarks.blame.judging import Order, judge_kept, record_all, refer_again
from benchmarks.blame.score import Row, lines
from benchmarks.blame.truths import read_truths


def main(arguments: Sequence[str] | None = None) -> None:
    """Record, judge, and print what is wrong and how much is right."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        keep = Path(options.keep or scratch)
        orders = [o for o in _orders(options, keep) if re.search(options.select, o.name)]
        if not options.again and not options.refer:
            record_all(orders, keep, lambda line: _say(line, sys.stderr))
        if options.refer:
            for order in orders:
                refer_again(order.name, keep)
        if options.peer:
            _ask_peer(orders, keep)
        rows, absent = _rows(options, orders, keep)
    for line in lines(rows):
        _say(line)
    for name, why in absent:
        _say(f"not counted: {name}: {why}")


def _ask_peer(orders: Sequence[Order], keep: Path) -> None:
    with forked_jobs():
        for order in orders:
            peer.ask(order, keep)
            _say(f"{order.name}: peer: {peer.read(keep, order.name)}", sys.stderr)


def _say(line: str, to: TextIO = sys.stdout) -> None:
    to.write(f"{line}\n")
    to.flush()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.blame", description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=Path, metavar="DIR", help="a registry: cases.py and truth.csv")
    parser.add_argument("--seed", type=int, default=0, help="of the seeded faults")
    parser.add_argument(
        "--count", type=int, default=seeded.COUNT, help="of seeded cases, clean ones among them"
    )
    parser.add_argument("--select", default="", metavar="REGEX", help="only the cases whose name it finds")
    parser.add_argument("--keep", metavar="DIR", help="where the recordings are, or are to stay")
    parser.add_argument("--again", action="store_true", help="judge kept recordings, without recording")
    parser.add_argument("--refer", action="store_true", help="the same, the CPU's part computed anew as well")
    parser.add_argument("--peer", action="store_true", help="ask ExecuTorch's own debugger too")
    options = parser.parse_args(arguments)
    if (options.again or options.refer) and not options.keep:
        parser.error("--again and --refer need --keep DIR, the folder with the recordings")
    return options


def _orders(options: argparse.Namespace, keep: Path) -> list[Order]:
    here = Path(__file__).parent
    if options.cases:
        os.environ[registry.FOLDER] = str(options.cases)
        cases = registry.load_cases(options.cases)
        return [
            Order(name=name, target=f"{here / 'registry.py'}:{name}", precision=case.mode)
            for name, case in cases.items()
        ]
    os.environ[seeded.ANSWERS] = str(keep.absolute())
    return [
        Order(name=spec.name, target=f"{here / 'seeded.py'}:{spec.name}", precision=spec.precision)
        for spec in seeded.plan(options.seed, options.count)
    ]


def _rows(
    options: argparse.Namespace, orders: Sequence[Order], keep: Path
) -> tuple[list[Row], list[tuple[str, str]]]:
    """What can be scored, and what cannot, with the reason."""
    truths = read_truths(options.cases) if options.cases else {}
    rows, absent = [], []
    for order in orders:
        answer = truths.get(order.name) if options.cases else seeded.read_answer(keep, order.name)
        comparison = judge_kept(order.name, keep)
        if answer is None or comparison is None:
            absent.append((order.name, "no answer" if answer is None else "no recording"))
            continue
        family = "registry" if options.cases else seeded.family_of(order.name)
        said = peer.read(keep, order.name)
        rows.append(Row(name=order.name, family=family, answer=answer, comparison=comparison, peer=said))
    return rows, absent


if __name__ == "__main__":
    main()
