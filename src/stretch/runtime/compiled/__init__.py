"""The compiled engine as a job runs it: threads over shared memory, no GIL, no copies per thread.

| file | what it is |
|---|---|
| `engine.py` | what a job asks for: `CompiledEngine` |
| `sources.py` | the threads that call `add`: what sources promise about order |
| `arrivals.py`, `admission.py` | the order of one source, and its batches as arrays |
| `inlet.py` | the way of one source into the log: piece by piece, with control entries in between |
| `feed.py` | the same for rows of all inputs that are in order already |
| `memory.py` | what all threads share: buffers, window state, epochs |
| `workers.py` | one thread per instance of the pool, and what becomes of one that fails |
| `image.py` | the state as bytes, for a snapshot |
| `results.py` | the thread that calls `results` |
"""

from stretch.runtime.compiled.engine import Begin, CompiledEngine, program_of

__all__ = ["Begin", "CompiledEngine", "program_of"]
