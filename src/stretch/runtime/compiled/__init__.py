"""The compiled engine as a job runs it: threads over shared memory, no GIL, no copies per thread.

| file | what it is |
|---|---|
| `engine.py` | what a job asks for: `CompiledEngine` |
| `sources.py` | the threads that call `add`: order, and admission piece by piece, with control entries in between |
| `arrivals.py`, `admission.py` | the order of one source, and its batches as arrays |
| `memory.py` | what all threads share: buffers, window state, epochs |
| `workers.py` | one thread per instance of the pool, and what becomes of one that fails |
| `results.py` | the thread that calls `results` |
"""

from stretch.runtime.compiled.engine import CompiledEngine

__all__ = ["CompiledEngine"]
