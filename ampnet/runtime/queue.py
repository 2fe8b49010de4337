"""Lock-free queue with many producers and one consumer: the intrusive linked list of D. Vyukov.

`tail` is where producers append (one atomic exchange, one store), `head` is where the consumer takes. A stub keeps the
list from ever being empty. Between a producer's exchange and its store the list is cut in two for a moment: the
consumer then sees "nothing yet" and comes back later.
"""

import numpy as np

from .atomics import atomic_exchange, load, load_acquire, store, store_release
from .memory import LINE, helper

HEAD, TAIL, STUB = 0, LINE, LINE + 8   # a producer that finds the queue empty writes to tail and stub: one line
QUEUE_BYTES = 2 * LINE
QUEUE_DTYPE = np.dtype((np.void, QUEUE_BYTES))


@helper
def reset(queue):
    """Make the memory at address `queue` (QUEUE_BYTES) an empty queue; not while others use it."""
    store(queue + HEAD, queue + STUB)
    store(queue + TAIL, queue + STUB)
    store(queue + STUB, 0)


@helper
def push_chain(queue, first, last):
    """Append messages already linked from `first` to `last`; any thread."""
    store_release(last, 0)
    before = atomic_exchange(queue + TAIL, last)
    store_release(before, first)


@helper
def push(queue, message):
    """Append one message; any thread."""
    push_chain(queue, message, message)


@helper
def seems_empty(queue):
    """Whether there was nothing to take just now; only the owner asks."""
    head = load(queue + HEAD)
    return head == queue + STUB and load_acquire(head) == 0


@helper
def pop(queue):
    """Take the oldest message, 0 where there is none yet; only the owner."""
    head = load(queue + HEAD)
    following = load_acquire(head)
    if head == queue + STUB:
        if following == 0:
            return 0
        store(queue + HEAD, following)
        head = following
        following = load_acquire(head)
    if following != 0:
        store(queue + HEAD, following)
        return head
    if head != load_acquire(queue + TAIL):
        return 0
    push(queue, queue + STUB)
    following = load_acquire(head)
    if following != 0:
        store(queue + HEAD, following)
        return head
    return 0
