"""Wires capture, execution and analysis into one recording.

``record`` runs in the user's process and imports no torch; ``work`` runs in a worker process, where
``lower`` captures, ``measure`` executes and ``refer`` computes the CPU references. Each adds its part
to the recording, so that one that crashes loses only its own. The package stands above its siblings,
since none of them may know another, and below the command line, since a test plugin and a notebook
need it too.
"""
