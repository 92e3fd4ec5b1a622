"""Running operators: `setup` makes a `Job`, which takes record batches and gives tables.

Depends on everything below it; holds no semantics of its own beyond what sources promise (`ingress`).
"""
