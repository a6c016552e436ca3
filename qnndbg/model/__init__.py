"""Data only: what a recording holds and what a comparison yields.

Frozen ``msgspec.Struct`` types rather than dataclasses, since one declaration then gives the type,
the on-disk JSON and the validation of a file that came from a stranger. Nothing here computes.
"""
