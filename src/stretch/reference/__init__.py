"""The reference engine: the paper's model in plain Python, single-stepped, the oracle for every other engine.

Depends on `operator`, `windows` and `buffer` (the interface). It is written to be obviously right, not fast, and
knows nothing of threads, Numba or Arrow: its instances are generators that a seeded scheduler steps.

| file | paper |
|---|---|
| `buffer.py` | TB, table "API of TB" |
| `store.py` | sigma, window instances |
| `process.py` | Algorithm "processSN" without the queues: handleInputTuple, forwardAndShift |
| `shared_nothing.py` | `forwardSN`, `processSN`, elasticity by state transfer |
| `virtual.py` | `forwardVSN`, `processVSN`, control tuples, barrier, epoch switch |
| `scheduler.py` | who runs next |
"""
