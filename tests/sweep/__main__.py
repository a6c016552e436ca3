"""``python -m tests.sweep``: records ExecuTorch's own op tests, and prints what became of each."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.sweep.rows import Row, read_csv, write_csv
from tests.sweep.sweep import chosen, discover, sweep
from tests.sweep.table import line, summary, table


def options(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", description=__doc__)
    add = parser.add_argument
    add("--select", default="", metavar="REGEX", help="tests to run, such as quantized/conv; default all")
    add("--limit", type=int, default=0, metavar="N", help="run N of them, as the seed draws them")
    add("--cases", type=int, default=0, metavar="N", help="record the first N lowerings of a test only")
    add("--seed", type=int, default=0, help="of upstream's inputs, and of the order; default 0")
    add("--jobs", type=int, default=1, choices=[1], help="tests at a time: 1, since the emulator is slow")
    add("--timeout", type=float, default=300.0, metavar="S", help="for one lowering, measured; default 300")
    add("--csv", type=Path, metavar="FILE", help="write the rows there; tests that it has are not run again")
    add("--keep", type=Path, metavar="DIR", help="keep each recording as DIR/float/abs.0.qnndbg")
    add("--peer", action="store_true", help="ask ExecuTorch's own debugger too")
    add("--apart", action="store_true", help="measure each lowering in a fresh process, which is slower")
    return parser.parse_args(args)


def main(args: list[str]) -> int:
    """Run what was asked for; 1 if a lowering was not recorded whole."""
    asked = options(args)
    with tempfile.TemporaryDirectory() as scratch:
        keep = (asked.keep or Path(scratch)).absolute()
        rows = run(asked, keep)
    sys.stdout.write(f"\n{table(rows, peer=asked.peer)}\n\n{summary(rows)}\n")
    return int(any(bad(row) for row in rows))


def run(asked: argparse.Namespace, keep: Path) -> list[Row]:
    """The rows of earlier runs and of this one, sorted."""
    rows = read_csv(asked.csv) if asked.csv else []
    names = chosen(discover(keep), select=asked.select, limit=asked.limit, seed=asked.seed)
    known = {row.test for row in rows}
    waiting = [name for name in names if name not in known]
    task = {
        "keep": str(keep),
        "seed": asked.seed,
        "most": asked.cases,
        "limit": asked.timeout,
        "peer": asked.peer,
        "apart": asked.apart,
    }

    def show(row: Row) -> None:
        sys.stdout.write("  ".join(filter(None, line(row, peer=False))) + f"  {row.seconds:.0f} s\n")
        sys.stdout.flush()

    for found in sweep(task, waiting, show):
        rows += found
        rows.sort(key=lambda row: (row.test, row.case))
        if asked.csv:
            write_csv(asked.csv, rows)
    return rows


def bad(row: Row) -> bool:
    """Whether qnndbg is to blame for what became of a lowering."""
    return row.status in {"crashed", "qnndbg failed"} or (row.status == "recorded" and not row.accounted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
