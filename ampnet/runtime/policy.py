"""What a worker does next: one pure function of its waiting lists.

Backward goes before forward, so that instances finish soon and new ones can start; within a direction the longest list
goes first, since the most rows then share one product.
"""

from .memory import helper


@helper
def choose(messages, node_count):
    """The waiting list to serve, -1 when all are empty.

    messages: (2 * node_count,) number of messages waiting: backward lists of all nodes, then their forward lists.
    """
    for direction in range(2):
        best, most = -1, 0
        for k in range(direction * node_count, (direction + 1) * node_count):
            if messages[k] > most:
                best, most = k, messages[k]
        if best >= 0:
            return best
    return -1
