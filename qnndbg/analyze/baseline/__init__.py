"""Makes a baseline of a recording: leaves out tensors, sources, times and digits that carry nothing.

``digests`` tells snapshots apart without names, ``trim`` shortens numbers, ``reduce`` brings all together.
"""
