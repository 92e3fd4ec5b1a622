"""Windows: their boundaries, their kinds, and the key groups that their state is dealt to.

Depends on `native` only (through later layers), and knows nothing of threads, buffers or user functions.
"""
