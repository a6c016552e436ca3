"""Rules with stable ids over one recording. Each finds what it is about and how bad that is; none judges.

``QD1xx`` numerics, ``QD2xx`` dtype and encoding, ``QD3xx`` graph, ``QD4xx`` passes, ``QD5xx`` method. What a
rule means and what helps is in :mod:`qnndbg.analyze.rules.catalog`, and in docs/reference/rules.md.
"""

from __future__ import annotations

from qnndbg.analyze.rules import encodings, graph, method, numerics, passes
from qnndbg.analyze.rules.context import Context
from qnndbg.model.result import Finding

SEVERITIES = ("error", "warning", "note")


def find(context: Context) -> tuple[Finding, ...]:
    """All findings of a recording, by severity, then by rule and place."""
    found = [
        finding for family in (numerics, encodings, graph, passes, method) for finding in family.find(context)
    ]
    return tuple(sorted(found, key=lambda f: (SEVERITIES.index(f.severity), f.rule, f.method, f.where)))
