"""What differs between two recordings: pure functions from recordings to :class:`qnndbg.model.diff.Diff`.

::

    form ──► align, gaps ──► pair ──► sides ──► graphs, passes, parting, qnn, layers ──► recordings

``form`` brings a graph to canonical form, ``pair`` finds which node is which, ``sides`` holds the two
recordings meanwhile, and ``recordings`` brings all together. Nothing here formats or prints.
"""
