"""How long ``qnndbg diff`` takes on large recordings, and how much memory.

::

    python -m benchmarks.diff_cost [NODES]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.large import PLAN, write_recording

PARTS_AT = {"late": 70, "early": 3, "never": -1}
"""Where B parts from A: the later, the more graphs are alike; the earlier, the more differ in every node."""
CHILD = """
import resource, sys, time
from pathlib import Path
from qnndbg.cli.main import main
begun, worked = time.perf_counter(), time.process_time()
code = main(["diff", *sys.argv[1:]])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
took, cpu = time.perf_counter() - begun, time.process_time() - worked
print(f"exit code {code}, {took:.2f} s in the process ({cpu:.2f} s of CPU), {peak} MB", file=sys.stderr)
"""


def main() -> None:
    """Print one line for each pair and format."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    events = sum(count + 1 for _, count in PLAN)
    sys.stdout.write(f"{nodes} nodes, {events} pass events\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_recording(folder / "a.qnndbg", nodes=nodes, prefix="a", parts_at=-1)
        for which, index in PARTS_AT.items():
            write_recording(folder / f"{which}.qnndbg", nodes=nodes, prefix="other", parts_at=index)
            for form in ("text", "json", "html"):
                command = [
                    sys.executable,
                    "-c",
                    CHILD,
                    str(folder / "a.qnndbg"),
                    str(folder / f"{which}.qnndbg"),
                ]
                begun = time.perf_counter()
                done = subprocess.run(
                    [*command, "--format", form], capture_output=True, text=True, check=True
                )
                took = time.perf_counter() - begun
                sys.stdout.write(f"parts {which:5} {form:4}  {took:5.2f} s in all; {done.stderr.strip()}\n")


if __name__ == "__main__":
    main()
