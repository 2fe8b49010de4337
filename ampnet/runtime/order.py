"""The order in which a worker did things, written down so that a run can be repeated bit for bit.

A worker is deterministic but for what it meets from others: whose message comes next, which instance it may start, whether
an answer was an instance's last, and how far the run is when a node updates itself. Its log holds just that, in bytes:

    0 .. 247      took a message from this worker, by the number of its producer
    SERVE         called an operation on what the policy chose, which follows from all before
    START         started an instance; its position in the order of the run follows
    PAUSE         found nothing to do
    LAST, MORE    an answer came home and was, or was not, the last of its instance
    numbers       four bytes, lowest first

Before SERVE, START and PAUSE the outbox was emptied.

In a recorded or repeated run each producer has a queue of its own, so that its number need not travel with the message.
"""

import numpy as np

from .atomics import c_free
from .memory import helper, octets, plain_memory
from .records import ENGINE, LOG, WORKER

RECORD, REPEAT = 1, 2
MOST_WORKERS = 248
SERVE, START, PAUSE, LAST, MORE = range(MOST_WORKERS, MOST_WORKERS + 5)
END = 256                    # what follows the last byte
SMALLEST = 1 << 12


@helper
def is_repeating(worker):
    log = WORKER(worker).log
    return log != 0 and LOG(log).mode == REPEAT


@helper
def write(worker, token):
    """Append a byte where the run is recorded."""
    log = WORKER(worker).log
    if log == 0:
        return
    g = LOG(log)
    if g.mode != RECORD:
        return
    if g.size == g.capacity:
        larger = max(SMALLEST, 2 * g.capacity)
        moved = plain_memory(larger)
        if g.bytes != 0:
            octets(moved, g.size)[:] = octets(g.bytes, g.size)
            c_free(g.bytes)
        g.bytes = moved
        g.capacity = larger
    octets(g.bytes, g.capacity)[g.size] = token
    g.size += 1


@helper
def peek(worker):
    """The next byte, END behind the last."""
    g = LOG(WORKER(worker).log)
    return np.int64(octets(g.bytes, g.size)[g.at]) if g.at < g.size else END


@helper
def read(worker):
    """The same, and go on to the one after."""
    token = peek(worker)
    LOG(WORKER(worker).log).at += 1
    return token


@helper
def agree(worker, number):
    """A number, 0 to 2^32 - 1, that depends on other workers: written down, or the one written down in its place."""
    if WORKER(worker).log == 0:
        return number
    if not is_repeating(worker):
        for shift in range(0, 32, 8):
            write(worker, (number >> shift) & 255)
        return number
    number = 0
    for shift in range(0, 32, 8):
        number |= (read(worker) & 255) << shift
    return number


@helper
def agree_last(worker, is_last):
    """The same for whether an answer is its instance's last."""
    if not is_repeating(worker):
        write(worker, LAST if is_last else MORE)
        return is_last
    w = WORKER(worker)
    token = read(worker)
    if token != LAST and token != MORE:
        LOG(w.log).is_unfit = 1
    # A forged log must not free more slots than there are.
    return token == LAST and w.slot_count < ENGINE(w.engine).slot_total
