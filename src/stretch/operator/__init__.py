"""Operators: what a user declares (`spec`, `aggregate`, `join`, `paper`), and the plan that engines run (`plan`).

Depends on `windows`. Plain, picklable declarations: nothing here runs a tuple, knows a thread or a buffer.
"""
