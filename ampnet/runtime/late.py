"""Answers that nobody needs at once, which a node puts off so that it can give more of them together.

A node that knows such an answer keeps the gradient it is for (`put_off`), and its operation `late` gives all it has kept: once
there are rows enough, before an update, and when its worker has nothing left in a loop that goes backward.
"""

from .atomics import call_operation
from .memory import helper
from .message import DONE, MESSAGE
from .policy import ENOUGH
from .records import NODE, WORKER


@helper
def put_off(node, message):
    """Keep a gradient until its answer is given."""
    n = NODE(node)
    MESSAGE(message).next = 0
    if n.late_first == 0:
        n.late_first = message
    else:
        MESSAGE(n.late_last).next = message
    n.late_last = message
    n.late_rows += MESSAGE(message).rows


@helper
def give_answers(worker, node):
    """Give the answers that were put off, if there are any."""
    n = NODE(node)
    return DONE if n.late_first == 0 else call_operation(n.late, worker, node, 0, 0)


@helper
def give_or_remember(worker, node):
    """Give the answers that were put off if there are rows enough, else have the worker remember the node."""
    n, w = NODE(node), WORKER(worker)
    if n.late_rows >= ENOUGH:
        return give_answers(worker, node)
    if n.is_late == 0:
        n.is_late = 1
        n.late_next = w.late
        w.late = node
    return DONE


@helper
def next_late(worker):
    """A node that the worker remembers, and forgets."""
    w = WORKER(worker)
    node = w.late
    w.late = NODE(node).late_next
    NODE(node).is_late = 0
    return node


@helper
def take_late(node):
    """The chain of gradients that were put off, which are forgotten, and their rows."""
    n = NODE(node)
    first, rows = n.late_first, n.late_rows
    n.late_first = 0
    n.late_rows = 0
    return first, rows
