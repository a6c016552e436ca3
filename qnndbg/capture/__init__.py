"""Adapter: watches a lowering and writes what it sees into a recording.

``instrument`` hooks the lowering and follows its stages, ``snapshot`` turns graphs into data,
``provenance`` says where nodes come from, ``qnn_graph`` reads the QNN graph. Workarounds for
versions of torch and ExecuTorch stay in here.
"""
