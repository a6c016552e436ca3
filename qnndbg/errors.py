"""The exception tree. Each error says what happened and what fixes it, and knows its exit code.

::

    QnndbgError
    ├── UsageError            2   the command cannot be carried out as given
    ├── RecordingError        3   a recording cannot be read
    │   └── SchemaError       3   ... because a newer qnndbg wrote it
    ├── SdkError              4   no QNN SDK that works
    ├── LoweringError         4   export, quantisation, lowering or execution failed
    │   └── WorkerCrashedError 4  ... by killing its process
    ├── WorkerFailedError    70   a worker process raised what no one expected
    └── NothingComparedError  5   no value of the two sides could be paired

A mismatch of numbers is data, never an exception. Exit code 70 is left for our own bugs, and 1 for
a difference or regression that was found.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_DIFFERENCE = 1
EXIT_INTERNAL = 70


class QnndbgError(Exception):
    """Something the user can act on.

    Args:
        fact: what happened, in one sentence without a full stop.
        hint: what fixes it; empty if nothing is known.
    """

    exit_code = EXIT_INTERNAL

    def __init__(self, fact: str, hint: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.hint = hint


class UsageError(QnndbgError):
    """The command cannot be carried out as given."""

    exit_code = 2


class RecordingError(QnndbgError):
    """A recording cannot be read."""

    exit_code = 3


class SchemaError(RecordingError):
    """A recording was written by a newer version."""


class SdkError(QnndbgError):
    """No QNN SDK was found, or the one found does not work."""

    exit_code = 4


class LoweringError(QnndbgError):
    """Export, quantisation, lowering or execution failed."""

    exit_code = 4


class WorkerCrashedError(LoweringError):
    """A worker process died, as native code makes it do."""


class WorkerFailedError(QnndbgError):
    """A job in a worker process raised an exception that is none of these: our own bug."""


class NothingComparedError(QnndbgError):
    """No value of the two sides could be paired."""

    exit_code = 5
