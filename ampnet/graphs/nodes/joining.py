"""How messages with the same state meet at a node: parts that came early wait in the node's table, linked to one another.

The node's table may hold what it keeps for backward under the same states: a part that waits says so in `version`.
"""

from ...runtime.memory import helper
from ...runtime.message import MESSAGE
from ...runtime.records import NODE
from ...runtime.table import get, get_or_put, put, remove, replace, take

WAITING = -1   # `version` of a part that waits


@helper
def meet(node, message, keeps):
    """Of two parts: the other one, 0 when it has not come yet, -1 when one came to this port before.

    keeps: the part that came to port 0 stays in the table, kept until its gradient comes.
    """
    other, entry = get_or_put(node, message, message)
    if other == 0:
        MESSAGE(message).version = WAITING
        return 0
    if MESSAGE(other).version != WAITING or MESSAGE(other).port == MESSAGE(message).port:
        return -1
    if not keeps:
        remove(node, entry)
        return other
    first = message if MESSAGE(message).port == 0 else other
    MESSAGE(first).version = NODE(node).version
    replace(entry, first)
    return other


@helper
def gather_part(worker, node, message, parts):
    """Of any number of parts: the chain of all of them when this was the last, 0 before, -1 when its port had one."""
    if parts == 2:
        other = meet(node, message, False)
        if other > 0:
            MESSAGE(message).next = other
            return message
        return other
    first = get(node, message)
    if first == 0:
        if parts == 1:
            return message
        put(node, message, message)
        MESSAGE(message).version = WAITING
        return 0
    if MESSAGE(first).version != WAITING:
        return -1
    part, found = first, 0
    while part != 0:
        if MESSAGE(part).port == MESSAGE(message).port:
            return -1
        found += 1
        part = MESSAGE(part).next
    MESSAGE(message).next = MESSAGE(first).next
    MESSAGE(first).next = message
    if found + 1 < parts:
        return 0
    return take(node, message)
