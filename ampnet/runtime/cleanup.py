"""Freeing everything in flight after a failure or an interrupt. Runs when no worker does."""

from .atomics import c_free, load, store
from .memory import LINE, integers, vector
from .message import DONE, MESSAGE, operation, release, release_chain
from .queue import QUEUE_BYTES, pop
from .records import ENGINE, NODE, PARAMETER, WAITING, WORKER
from .table import clear


@operation
def clear_worker(worker, node, batch, count):
    """Free what waits in a worker's queue, outbox and lists, and its scratch tables."""
    w = WORKER(worker)
    e = ENGINE(w.engine)
    for producer in range(e.worker_count):
        while True:
            message = pop(w.queues + QUEUE_BYTES * producer)
            if message == 0:
                break
            release(worker, message)
    release_chain(worker, w.outbox_first)
    w.outbox_first = 0
    lists = 2 * e.node_count
    for number in range(lists):
        waiting = WAITING(w.lists + LINE * number)
        for _ in range(waiting.messages):
            following = MESSAGE(waiting.first).next
            release(worker, waiting.first)
            waiting.first = following
        waiting.messages = 0
        waiting.rows = 0
    integers(w.lists + LINE * lists, lists)[:] = 0
    for number in range(8):
        pair = w.tables + 16 * number
        if load(pair) != 0:
            c_free(load(pair))
        store(pair, 0)
        store(pair + 8, 0)
    return DONE


@operation
def clear_node(worker, node, batch, count):
    """Free what a node keeps, and forget the gradients it has gathered."""
    n = NODE(node)
    clear(worker, node)
    n.held_rows = 0
    n.gathered = 0
    for i in range(n.parameter_count):
        p = PARAMETER(load(n.parameters + 8 * i))
        vector(p.gradient, p.rows * p.cols)[:] = 0
        if p.touched != 0:
            integers(p.marks, p.rows)[:] = 0
            p.touched_count = 0
    return DONE
