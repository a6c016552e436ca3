"""Wires capture, execution and analysis into one recording.

``record`` runs in the user's process, imports no torch and starts the jobs of ``lower``, ``execute``
and ``refer`` in worker processes, one after the other; each adds its part to the recording, so that
one that crashes loses only its own. It stands above its siblings, since none of them may know another,
and below the command line, since a test plugin and a notebook need it too.
"""
