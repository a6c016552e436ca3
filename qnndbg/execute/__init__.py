"""Adapter: runs programs on the HTP emulator and graphs on the CPU, where a crash costs nothing.

``sdk`` finds the QNN libraries and loads them, ``worker`` runs a job in a process of its own (``child`` is
its other side, ``native_log`` reads what it left), ``probe`` is the smallest job that shows whether
lowering works. ``htp`` executes a program, ``etdump`` reads its dump, ``reference`` evaluates a recorded
graph with the ``operators`` that it may name.
"""
