"""Epochs and workers: reconfiguration without state transfer, on threads that share everything.

Depends on `operator`, `windows` and `buffer`. Knows nothing of Arrow, Python objects of the user, or who asked for a
reconfiguration and why.
"""
