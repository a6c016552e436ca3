"""Measurements of what qnndbg costs; not part of the package."""
