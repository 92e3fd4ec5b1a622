"""Finding, creating, growing and dropping tables; the layout and its invariants are in `layout.py`.

The caller owns the group that it names; nothing here waits or is atomic except taking memory from the heap.
"""

from __future__ import annotations

from stretch.native.atomics import fetch_add
from stretch.native.hashing import scatter
from stretch.native.jit import kernel
from stretch.native.prefetch import prefetch
from stretch.windows.layout import (
    BLOCK,
    CHUNK_CLASS,
    CHUNK_END,
    CHUNK_NEXT,
    CLASS,
    CLASS_MIN,
    COUNT,
    DIRECTORY_WORDS,
    HEAP_END,
    KEY_ID,
    LIVE_WORDS,
    NO_TABLE,
    TAG,
    Shape,
    Tables,
)

HEAP_FULL = -1


@kernel(inline=True)
def record_of(shape: Shape, group: int, pane: int) -> int:
    """Return where the directory record of a group and pane starts."""
    return (group * shape.panes + (pane & (shape.panes - 1))) * DIRECTORY_WORDS


@kernel(inline=True)
def capacity_of(shape: Shape, size_class: int) -> int:
    """Return how many entries a block has room for."""
    words = 1 << size_class
    return (words - (words >> shape.index_shift)) // shape.entry_words


@kernel
def take_block(tables: Tables, worker: int, size_class: int) -> int:
    """Return a block, from the worker's free list or from the heap; HEAP_FULL if there is none."""
    free = tables.free[worker]
    words = 1 << size_class
    head = free[size_class]
    if head != 0:
        free[size_class] = tables.heap[head - 1]
        free[LIVE_WORDS] += words
        return head - 1
    if size_class >= CHUNK_CLASS:
        # fetch_add: partners are the fetch_adds of other workers; each gets a range of its own.
        block = fetch_add(tables.cells, HEAP_END, words)
        if block + words > len(tables.heap):
            return HEAP_FULL
        free[LIVE_WORDS] += words
        return block
    if free[CHUNK_NEXT] + words > free[CHUNK_END]:
        # fetch_add: as above. What is left of the last chunk, less than this block, is given up.
        chunk = fetch_add(tables.cells, HEAP_END, 1 << CHUNK_CLASS)
        if chunk + (1 << CHUNK_CLASS) > len(tables.heap):
            return HEAP_FULL
        free[CHUNK_NEXT] = chunk
        free[CHUNK_END] = chunk + (1 << CHUNK_CLASS)
    block = free[CHUNK_NEXT]
    free[CHUNK_NEXT] = block + words
    free[LIVE_WORDS] += words
    return block


@kernel
def give_block(tables: Tables, worker: int, block: int, size_class: int) -> None:
    """Put a block on the worker's free list (I4)."""
    free = tables.free[worker]
    tables.heap[block] = free[size_class]
    free[size_class] = block + 1
    free[LIVE_WORDS] -= 1 << size_class


@kernel
def clear_index(tables: Tables, shape: Shape, block: int, size_class: int) -> None:
    """Empty the index of a block."""
    words = 1 << size_class
    index_words = words >> shape.index_shift
    for word in range(block + words - index_words, block + words):
        tables.heap[word] = 0


@kernel
def create_table(tables: Tables, shape: Shape, worker: int, group: int, pane: int) -> bool:
    """Begin the table of a group and pane, as large as the group's previous one came to be; False if memory is out."""
    record = record_of(shape, group, pane)
    before = record_of(shape, group, pane - 1)
    size_class = CLASS_MIN
    if tables.directory[before + TAG] == pane - 1:
        size_class = tables.directory[before + CLASS]
        if size_class > CLASS_MIN and 3 * tables.directory[before + COUNT] < capacity_of(shape, size_class):
            size_class -= 1
    while capacity_of(shape, size_class) < 1:
        size_class += 1
    block = take_block(tables, worker, size_class)
    if block < 0:
        return False
    clear_index(tables, shape, block, size_class)
    tables.directory[record + TAG] = pane
    tables.directory[record + BLOCK] = block
    tables.directory[record + CLASS] = size_class
    tables.directory[record + COUNT] = 0
    return True


@kernel
def drop_table(tables: Tables, shape: Shape, worker: int, group: int, pane: int) -> None:
    """Free the table of a group and pane as a whole, if there is one."""
    record = record_of(shape, group, pane)
    if tables.directory[record + TAG] == pane:
        give_block(tables, worker, tables.directory[record + BLOCK], tables.directory[record + CLASS])
        tables.directory[record + TAG] = NO_TABLE


@kernel(inline=True)
def code_of(shape: Shape, key: int, second: int) -> int:
    """Return what slots go by: bits of the key alone, so that no hash of a text is looked up for it."""
    if shape.key_kind == KEY_ID:
        return key
    if shape.key_words == 2:
        return scatter(scatter(key) ^ second)
    return scatter(key)


@kernel(inline=True)
def find_slot(tables: Tables, shape: Shape, block: int, size_class: int, key: int, second: int) -> int:
    """Search a key; return its slot, which is empty if the key is not there."""
    words = 1 << size_class
    index_words = words >> shape.index_shift
    index = 2 * (block + words - index_words)
    mask = 2 * index_words - 1
    # The upper half: in a key that is an id, the lower half of the hash is gone, and chose the group.
    slot = (code_of(shape, key, second) >> 32) & mask
    while True:
        number = tables.slots[index + slot]
        if number == 0:
            return index + slot
        at = block + (number - 1) * shape.entry_words
        if tables.heap[at] == key and (shape.key_words == 1 or tables.heap[at + 1] == second):
            return index + slot
        slot = (slot + 1) & mask


@kernel(inline=True)
def prefetch_slot(tables: Tables, shape: Shape, record: int, pane: int, key: int, second: int) -> None:
    """Ask for the slot at which the search of a key will begin."""
    directory = tables.directory
    if directory[record + TAG] == pane:
        prefetch(tables.slots, _first_slot(shape, directory[record + BLOCK], directory[record + CLASS], key, second))


@kernel(inline=True)
def prefetch_entry(tables: Tables, shape: Shape, record: int, pane: int, key: int, second: int) -> None:
    """Ask for the entry that the search of a key will look at first, or make; its slot has been asked for."""
    directory = tables.directory
    if directory[record + TAG] == pane:
        block = directory[record + BLOCK]
        number = tables.slots[_first_slot(shape, block, directory[record + CLASS], key, second)]
        at = number - 1 if number != 0 else directory[record + COUNT]
        prefetch(tables.heap, block + at * shape.entry_words)


@kernel(inline=True)
def _first_slot(shape: Shape, block: int, size_class: int, key: int, second: int) -> int:
    words = 1 << size_class
    index_words = words >> shape.index_shift
    return 2 * (block + words - index_words) + ((code_of(shape, key, second) >> 32) & (2 * index_words - 1))


@kernel
def copy_table(tables: Tables, shape: Shape, source: int, count: int, block: int, size_class: int) -> None:
    """Copy the entries of a table to a block, which may be larger, and make the index anew."""
    used = count * shape.entry_words
    for word in range(used):
        tables.heap[block + word] = tables.heap[source + word]
    clear_index(tables, shape, block, size_class)
    for number in range(count):
        at = block + number * shape.entry_words
        key = tables.heap[at]
        second = tables.heap[at + 1] if shape.key_words == 2 else 0
        tables.slots[_empty_slot(tables, shape, block, size_class, key, second)] = number + 1


@kernel(inline=True)
def _empty_slot(tables: Tables, shape: Shape, block: int, size_class: int, key: int, second: int) -> int:
    words = 1 << size_class
    index_words = words >> shape.index_shift
    index = 2 * (block + words - index_words)
    mask = 2 * index_words - 1
    slot = (code_of(shape, key, second) >> 32) & mask
    while tables.slots[index + slot] != 0:
        slot = (slot + 1) & mask
    return index + slot


@kernel
def grow_table(tables: Tables, shape: Shape, worker: int, record: int) -> bool:
    """Move a full table into a block twice as large; False if memory is out."""
    directory = tables.directory
    size_class = directory[record + CLASS]
    block = take_block(tables, worker, size_class + 1)
    if block < 0:
        return False
    copy_table(tables, shape, directory[record + BLOCK], directory[record + COUNT], block, size_class + 1)
    give_block(tables, worker, directory[record + BLOCK], size_class)
    directory[record + BLOCK] = block
    directory[record + CLASS] = size_class + 1
    return True


@kernel(inline=True)
def find_or_create(tables: Tables, shape: Shape, worker: int, record: int, key: int, second: int) -> int:
    """Return where the entry of a key starts, made from the template if there is none, or HEAP_FULL."""
    directory = tables.directory
    slot = find_slot(tables, shape, directory[record + BLOCK], directory[record + CLASS], key, second)
    number = tables.slots[slot]
    if number != 0:
        return directory[record + BLOCK] + (number - 1) * shape.entry_words
    count = directory[record + COUNT]
    if count == capacity_of(shape, directory[record + CLASS]):
        if not grow_table(tables, shape, worker, record):
            return HEAP_FULL
        slot = _empty_slot(tables, shape, directory[record + BLOCK], directory[record + CLASS], key, second)
    tables.slots[slot] = count + 1
    directory[record + COUNT] = count + 1
    at = directory[record + BLOCK] + count * shape.entry_words
    for word in range(shape.entry_words):
        tables.heap[at + word] = tables.template[word]
    tables.heap[at] = key
    if shape.key_words == 2:
        tables.heap[at + 1] = second
    return at
