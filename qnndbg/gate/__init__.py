"""Judges a recording: against a baseline, by a policy. Reads recordings only; formats and prints nothing.

``policy`` is what a ``qnndbg.toml`` says, ``limits`` which part of it holds where; ``layers``, ``outputs``
and ``program`` judge one kind of thing each, and ``triage`` brings all together.
"""
