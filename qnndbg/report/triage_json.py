"""A triage as JSON: fields in a fixed order; docs/reference/policy.md describes them."""

from __future__ import annotations

import msgspec

from qnndbg.model.triage import Triage


def triage_json(triage: Triage) -> str:
    """The triage as a JSON object in text; equal ones give equal bytes.

    Args:
        triage: of a check.
    """
    return msgspec.json.format(msgspec.json.encode(triage, order="deterministic"), indent=2).decode()
