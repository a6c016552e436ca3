"""What a script imports from its own folder."""

from __future__ import annotations

WORD = "neighbour"
