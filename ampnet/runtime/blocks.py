"""The blocks that messages live in, and a list of all there are.

A block is one aligned allocation: a line for this module alone, a 64-byte header and a payload of 64 << size bytes; its address
is the header's. Freed blocks go to a list of the worker that freed them, by size, and come back from there; a list that grows
past its limit returns blocks to the system, those of other workers early: memory must not pile up on one that mostly receives.

A worker's heap links all blocks it has got from the system, wherever they are now. So after a failure all are freed, also those
in the hands of the operation that failed: which of its messages it had consumed, joined or sent, nobody else could tell.
"""

import numpy as np

from .atomics import atomic_exchange, c_aligned_alloc, c_free, is_rare, load, store, store_release, yield_core
from .memory import LINE, helper, layout, record

SIZES = 32           # block sizes: payloads of 64 << 0 .. 64 << 31 bytes
KEPT_BYTES = 4 << 20  # a free list holds at most so many bytes of payload (and always a few blocks),
FOREIGN_BYTES = 256 << 10   # and from so many on only blocks of its own heap
KEPT_BLOCKS = 4

# Free lists are (first, count) by size; the lock guards all blocks, which other workers may give back to the system.
HEAP_DTYPE = layout(("free", (np.int64, 2 * SIZES)), "lock", "first", lines=("lock",))
HEAP, LOCK = record(HEAP_DTYPE), HEAP_DTYPE.fields["lock"][1]
LINK = record(layout("next", "previous", "heap"))   # the line before a block


@helper
def take_block(heap, size):
    """A block from the free list of its size, or a new one; `heap` is the address of the worker's."""
    entry = heap + 16 * size
    block = load(entry)
    if block != 0:
        store(entry, load(block))
        store(entry + 8, load(entry + 8) - 1)
        return block
    return _from_system(heap, size)


@helper
def give_block(heap, block, size):
    """Put a block on the free list of its size, or back to the system where that is full."""
    entry = heap + 16 * size
    count = load(entry + 8)
    nbytes = (count << size) * LINE
    if count >= KEPT_BLOCKS and nbytes >= FOREIGN_BYTES and (nbytes >= KEPT_BYTES or LINK(block - LINE).heap != heap):
        _to_system(block)
        return
    store(block, load(entry))
    store(entry, block)
    store(entry + 8, count + 1)


@helper
def _lock(heap):
    while atomic_exchange(heap + LOCK, 1) != 0:
        yield_core()


@helper
def _unlock(heap):
    store_release(heap + LOCK, 0)


@helper
def _from_system(heap, size):
    is_rare()
    block = c_aligned_alloc(LINE, 2 * LINE + (LINE << size)) + LINE
    link = LINK(block - LINE)
    link.previous = 0
    link.heap = heap
    _lock(heap)
    first = HEAP(heap).first
    link.next = first
    if first != 0:
        LINK(first - LINE).previous = block
    HEAP(heap).first = block
    _unlock(heap)
    return block


@helper
def _to_system(block):
    is_rare()
    link = LINK(block - LINE)
    heap = link.heap
    _lock(heap)
    following, previous = link.next, link.previous
    if following != 0:
        LINK(following - LINE).previous = previous
    if previous != 0:
        LINK(previous - LINE).next = following
    else:
        HEAP(heap).first = following
    _unlock(heap)
    c_free(block - LINE)


@helper
def free_blocks(heap):
    """Free all blocks a heap has got from the system, and forget its free lists. Runs when no worker does, for all heaps.

    Returns how many blocks these were, less those on its free lists: the sum over all heaps is how many were in use.
    """
    count = 0
    for size in range(SIZES):
        count -= load(heap + 16 * size + 8)
        store(heap + 16 * size, 0)
        store(heap + 16 * size + 8, 0)
    block = HEAP(heap).first
    while block != 0:
        following = LINK(block - LINE).next
        c_free(block - LINE)
        block = following
        count += 1
    HEAP(heap).first = 0
    return count
