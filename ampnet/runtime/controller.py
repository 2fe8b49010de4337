"""Starts instances and retires them, so that at most `max_active_keys` are in flight.

An instance in flight sits in a *slot*; the slots are dealt out to lanes (one for each replica of a model), so that each has
its share in flight. A slot's pending count is the number of messages its sources have sent and not yet got an answer to; when
it reaches zero the instance is home, and whichever worker saw that starts the next one there. So a lane that is faster, or has
smaller instances, gets more of them.
"""

import numpy as np

from .atomics import atomic_add, call_operation, load, load_acquire, store, store_release
from .memory import LINE, helper
from .message import MESSAGE, STATE, STATE_FIELDS, new_block, release
from .order import START, agree, agree_last, is_repeating, write
from .records import COLUMN, ENGINE, ENGINE_DTYPE, NODE, WORKER, offset

NEXT, RETIRED = offset(ENGINE_DTYPE, "next"), offset(ENGINE_DTYPE, "retired")


@helper
def expect_answers(worker, message, count):
    """A source sent `count` messages of the instance in this message's slot."""
    atomic_add(ENGINE(WORKER(worker).engine).pending + LINE * MESSAGE(message).slot, count)


@helper
def got_answer(worker, message):
    """A message came home to its source; the last one retires the instance."""
    settle_slot(worker, np.int64(MESSAGE(message).slot))


@helper
def settle_slot(worker, slot):
    """Count one pending message of a slot off; free the slot when it was the last."""
    w = WORKER(worker)
    if agree_last(worker, atomic_add(ENGINE(w.engine).pending + LINE * slot, -1) == 1):
        store(w.slots + 8 * w.slot_count, slot)
        w.slot_count += 1
        atomic_add(w.engine + RETIRED, 1)


@helper
def lane_of(worker, message):
    """The lane of the instance that a message is of."""
    return MESSAGE(message).slot % ENGINE(WORKER(worker).engine).lane_count


@helper
def all_retired(engine):
    """Whether every instance of the run is home."""
    return load_acquire(engine + RETIRED) >= ENGINE(engine).total


@helper
def _fill_state(engine, message, instance):
    """The state an instance starts with: its number, and the fields filled from the row counts of columns."""
    e, state = ENGINE(engine), MESSAGE(message).state
    state[0] = instance
    for field in range(1, STATE_FIELDS):
        column = load(e.fills + 8 * field)
        rows = 0
        if column >= 0:
            offsets = COLUMN(e.columns + LINE * column).offsets
            rows = load(offsets + 8 * instance + 8) - load(offsets + 8 * instance)
        state[field] = rows


@helper
def start_instance(worker, blank):
    """Start the next instance in a free slot of this worker; a slot without a next instance is dropped.

    `blank` is a header-sized scratch message. Returns a status: 0, or that of the source that failed.
    """
    w = WORKER(worker)
    e = ENGINE(w.engine)
    w.slot_count -= 1
    slot = load(w.slots + 8 * w.slot_count)
    write(worker, START)
    position = agree(worker, 0 if is_repeating(worker) else atomic_add(w.engine + NEXT, 1))
    if position >= e.total:
        return 0
    store(blank + STATE - 16, 0)
    MESSAGE(blank).slot = slot
    _fill_state(w.engine, blank, load(e.order + 8 * position))
    store_release(e.pending + LINE * slot, 1)   # held open until every source has sent
    for i in range(e.source_count):
        node = load(e.nodes + 8 * load(e.sources + 8 * i))
        start = new_block(worker, 0, 0, blank)
        store(w.batch, start)
        status = call_operation(NODE(node).forward, worker, node, w.batch, 1)
        if status != 0:
            return status
        release(worker, start)
    settle_slot(worker, slot)
    return 0
