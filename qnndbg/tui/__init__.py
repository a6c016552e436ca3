"""The terminal UI: screens over one recording, or over two. Reads recordings only; loads nothing of torch.

:mod:`~qnndbg.tui.state` looks things up and keeps what is slow to load, one module a screen shows them, and
:mod:`~qnndbg.tui.sheet` is the one widget that draws lines. Only this package imports Textual.
"""
