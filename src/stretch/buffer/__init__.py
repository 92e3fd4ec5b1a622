"""Tuple buffers: what sources add is delivered, in one total order, to every reader exactly once (Paper: TB).

Depends on `native` only. Knows nothing of windows, keys or user functions.
"""
