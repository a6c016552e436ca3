"""How fast the terminal UI is on a large recording: until it is on screen, and from a key to its answer.

::

    python -m benchmarks.tui_speed [--ops 5000] [--keep FOLDER]

Makes a recording of so many ops and 98 passes, runs ``qnndbg tui`` over it in a pseudo-terminal of 120×40,
and prints the seconds until the ladder is there, the milliseconds from each key to the last byte of its
answer, and the memory of the process at the start and at the end. On a machine that does other work too, the
time on the processor, its median and the worst, tells more than that of the clock.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import statistics
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

from tests.tui.recorded import make

SIZE = (40, 120)
QUIET = 0.12
"""Seconds without output after which an answer is complete."""
ANSWER = 1.0
"""Seconds in which an answer must begin; some keys have none, such as down on the last line."""
DRAWN = 64
"""Bytes from which on an answer has begun; with fewer, a page that is opened hides its cursor first."""
DOWN, PAGE = "j", "\x1b[6~"
SCRIPT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("overview", (DOWN,) * 8),
    ("to the passes", ("2",)),
    ("passes", ("]",) * 4 + (DOWN,) * 10),
    ("to the layers", ("3",)),
    ("layers: lines", (DOWN,) * 30),
    ("layers: pages", (PAGE,) * 20),
    ("layers: ends", ("G", "g") * 3),
    ("layers: sort", ("s",) * 10),
    ("layers: source", ("]",) * 4),
    ("layers: filter", ("f", *" op:gelu acc>4", "\r")),
    ("to a layer", ("\r",)),
    ("layers beside", ("]",) * 8),
    ("to the tensor", ("t",)),
    ("tensor", ("]", "v", "r") * 4),
    ("back", ("\x1b",)),
    ("to the graph", ("w",)),
    ("graph", ("\x1b[C",) * 15 + ("<", ">")),
)


class Terminal:
    """A process in a pseudo-terminal.

    Args:
        command: what to run.
    """

    def __init__(self, command: list[str]) -> None:
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execvp(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))

    def until(self, text: bytes, limit: float = 60.0) -> float:
        """Seconds from the start until a text is there."""
        seen = b""
        while text not in seen:
            ready, _, _ = select.select([self.fd], [], [], limit)
            if not ready:
                raise TimeoutError(f"{text!r} did not come")
            seen += os.read(self.fd, 1 << 16)
        return time.perf_counter() - self.started

    def settle(self, first: float = 0.0) -> tuple[float, float]:
        """The moment of the last byte before it is quiet, by the clock and by the processor.

        Args:
            first: seconds to wait for the first byte.
        """
        last, wait, size = (time.perf_counter(), self.processor()), max(first, QUIET), 0
        while select.select([self.fd], [], [], wait)[0]:
            size += len(os.read(self.fd, 1 << 16))
            last = time.perf_counter(), self.processor()
            wait = QUIET if size >= DRAWN else wait
        return last

    def key(self, key: str) -> tuple[float, float]:
        """Milliseconds from a key to the last byte of its answer, and those of the processor."""
        begin, used = time.perf_counter(), self.processor()
        os.write(self.fd, key.encode())
        answered, worked = self.settle(first=ANSWER)
        return 1000 * max(answered - begin, 0.0), 1000 * max(worked - used, 0.0)

    def processor(self) -> float:
        """Seconds of the processor that it has used, of all its threads."""
        return time.clock_gettime(~self.pid << 3 | 2)  # as of clock_getcpuclockid(3) in Linux

    def memory(self) -> float:
        """Resident megabytes of its own; mapped files are not counted."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))

    def close(self) -> None:
        """Leave it."""
        os.write(self.fd, b"\x03q")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ops", type=int, default=5000)
    parser.add_argument("--keep", type=Path, help="make the recording there, or use the one that is there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary) / "large.qnndbg"
        if not (folder / "comparison.json").exists():
            make(folder, args.ops)
        measure(folder)


def measure(folder: Path) -> None:
    """Run the script and print what it took."""
    terminal = Terminal([sys.executable, "-m", "qnndbg", "tui", str(folder)])
    seconds = terminal.until(b"Ladder")
    print(f"on screen after {seconds:.2f} s, {terminal.processor():.2f} s of them on the processor")
    terminal.settle()
    before, times = terminal.memory(), []
    for name, keys in SCRIPT:
        found = [terminal.key(key) for key in keys]
        times += found
        wall, used = zip(*found, strict=True)
        print(
            f"  {name:<15} {len(found):>3} keys   median {statistics.median(wall):>6.1f} ms"
            f"   worst {max(wall):>6.1f} ms   processor {statistics.median(used):>5.1f}, {max(used):>5.1f} ms"
        )
    walls, used = (sorted(column) for column in zip(*times, strict=True))
    at = int(0.95 * len(times))
    print(f"{len(times)} keys: 95th percentile {walls[at]:.1f} ms, on the processor {used[at]:.1f} ms")
    print(f"memory {before:.0f} MB at the start, {terminal.memory():.0f} MB at the end")
    terminal.close()


if __name__ == "__main__":
    main()
