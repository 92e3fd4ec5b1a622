"""Joins in the compiled engine: comparing rows of two inputs, in shared memory.

`layout` is the memory of a scan, `match` compiles predicates, `scan` compares all rows with all, `index` finds the rows
of declared bands. All of it works on columns of a row store and on row numbers; workers, windows and results are the
business of who calls it.
"""
