"""The on-disk format: a directory of JSON and ``.npy`` files, no pickle, safe to open.

``schema`` encodes and digests, ``blobs`` keeps tensors by content, ``writer`` writes a recording part
by part and ``store`` opens one. Nothing here knows torch.
"""
