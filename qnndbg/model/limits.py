"""What the HTP's half floats do where IEEE's have infinities, as measured on the emulator."""

FP16_MAX = 65504.0
"""Largest finite IEEE half float; beyond it the HTP has no number, and an op may read what it likes."""
FP16_OVERFLOW = (65536.0, 131008.0)
"""What an op was seen to read for a value beyond that: relu the first, arithmetic the second."""
