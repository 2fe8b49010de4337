"""Freeing everything in flight after a failure or an interrupt. Runs when no worker does."""

from .atomics import c_free, load, store
from .blocks import free_blocks
from .memory import LINE, integers, vector
from .message import DONE, operation
from .queue import QUEUE_BYTES, reset
from .records import ENGINE, NODE, PARAMETER, WAITING, WORKER
from .table import clear


@operation
def clear_worker(worker, node, batch, count):
    """Empty a worker's queues, outbox and lists; free its scratch tables, and all blocks of its heap, wherever they are.

    To be called for all workers, one after the other: none may look at a block afterwards.
    """
    w = WORKER(worker)
    e = ENGINE(w.engine)
    for producer in range(e.worker_count):
        reset(w.queues + QUEUE_BYTES * producer)
    w.outbox_first = 0
    w.late = 0
    lists = 2 * e.node_count
    for number in range(lists):
        waiting = WAITING(w.lists + LINE * number)
        waiting.messages = 0
        waiting.rows = 0
    integers(w.lists + LINE * lists, lists)[:] = 0
    for number in range(8):
        pair = w.tables + 16 * number
        if load(pair) != 0:
            c_free(load(pair))
        store(pair, 0)
        store(pair + 8, 0)
    w.given += free_blocks(w.heap)
    return DONE


@operation
def clear_node(worker, node, batch, count):
    """Forget what a node keeps, and the gradients it has gathered."""
    n = NODE(node)
    clear(node)
    n.held_rows = 0
    n.late_first = 0
    n.late_rows = 0
    n.is_late = 0
    n.gathered = 0
    for i in range(n.parameter_count):
        p = PARAMETER(load(n.parameters + 8 * i))
        vector(p.gradient, p.rows * p.cols)[:] = 0
        if p.touched != 0:
            integers(p.marks, p.rows)[:] = 0
            p.touched_count = 0
    return DONE
