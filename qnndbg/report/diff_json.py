"""A difference as JSON: fields in a fixed order; docs/reference/diff-json.md describes them."""

from __future__ import annotations

import msgspec

from qnndbg.model.diff import Diff


def diff_json(diff: Diff) -> str:
    """The difference as a JSON object in text; equal differences give equal bytes.

    Args:
        diff: of two recordings.
    """
    return msgspec.json.format(msgspec.json.encode(diff, order="deterministic"), indent=2).decode()
