"""Owns the entry point: which verbs there are, how an error looks, and which exit code it has.

A verb's module is imported only when it is called, so that ``qnndbg show`` starts without torch.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from qnndbg import __version__
from qnndbg.errors import EXIT_INTERNAL, QnndbgError, UsageError

VERBS = ("doctor", "record", "show", "diff", "check", "bisect", "tui")
EXIT_INTERRUPTED = 130  # what a shell reports of a command that SIGINT ended
EXIT_BROKEN_PIPE = 141  # ... and SIGPIPE

_FULL = (errno.ENOSPC, errno.EDQUOT)
_ENVIRONMENT_FAULTS = (errno.EACCES, errno.EPERM, errno.EROFS, *_FULL)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(message, f"{self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors go to stderr as a fact and a hint.

    Args:
        argv: the arguments without the program's name; those of the process if None.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except QnndbgError as error:
        return _fail(error.fact, error.hint, error.exit_code)
    except KeyboardInterrupt as stop:
        return _fail("interrupted", str(stop), EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the last flush must not fail
        return EXIT_BROKEN_PIPE
    except SystemExit as error:  # of argparse, after --help; of rich, which has handled a broken pipe
        if isinstance(error.__context__, BrokenPipeError):
            return EXIT_BROKEN_PIPE
        raise
    except OSError as error:
        if error.errno not in _ENVIRONMENT_FAULTS:
            return _bug()
        hint = (
            "free some space and try again" if error.errno in _FULL else "check the path and its permissions"
        )
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror}", hint, UsageError.exit_code)
    except Exception:  # noqa: BLE001  the border: uncaught, it would exit with 1, "difference found"
        return _bug()


def _run(argv: Sequence[str]) -> int:
    rest: dict[str, tuple[str, ...]] = {}
    if argv[:1] in (["record"], ["check"]):  # somebody else's arguments may follow
        module = import_module(f"qnndbg.cli.{argv[0]}")
        argv, script_arguments = module.split(argv)
        rest["script_arguments"] = script_arguments
    args = _parser(argv).parse_args(argv)
    code: int = import_module(f"qnndbg.cli.{args.verb}").run(args, **rest)
    sys.stdout.flush()  # here, where a broken pipe is still caught
    return code


def _parser(argv: Sequence[str]) -> Parser:
    """Return the parser of the verb that is called, or of all verbs for help and for a mistake."""
    parser = Parser(prog="qnndbg", description="Differential graph debugger for models lowered to the HTP.")
    parser.add_argument("--version", action="version", version=f"qnndbg {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    called = next((word for word in argv if not word.startswith("-")), "")
    for verb in (called,) if called in VERBS else VERBS:
        import_module(f"qnndbg.cli.{verb}").add_parser(subparsers)
    return parser


def _bug() -> int:
    traceback.print_exc()
    return _fail(
        "this is a bug in qnndbg", "report it with the traceback above and `qnndbg doctor`", EXIT_INTERNAL
    )


def _fail(fact: str, hint: str, code: int) -> int:
    from qnndbg.report.units import CONTROLS  # what is quoted may be a stranger's

    print(f"qnndbg: error: {fact.translate(CONTROLS)}", file=sys.stderr)
    if hint:
        print(f"hint: {hint.translate(CONTROLS)}", file=sys.stderr)
    return code
