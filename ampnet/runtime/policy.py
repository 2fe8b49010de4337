"""What a worker does next: one pure function of its waiting lists.

Backward goes before forward, so that instances finish soon and new ones can start; but a backward operation on few rows waits
as long as a forward one can take more, for more rows to come (in trees, where gradients come down one by one, that makes
backward calls four times as large). Within a direction the list from which one operation can take the most rows goes first,
since those rows share one product. Few rows of nodes in a loop go before few of others: nobody in the loop waits for what these
do, and meanwhile rows gather there. Between equals the instance that is furthest goes first: the last node forward, the first
node backward. Large messages, of which an operation takes one at a time, so run depth-first, with few updates between an
instance's forward and backward.
"""

from .memory import helper


@helper
def ready_rows(rows, first_rows, max_batch):
    """Rows one operation would take from a list of `rows` rows whose first message has `first_rows` (both at least 1)."""
    return min(rows, max(1, max_batch // first_rows) * first_rows)


ENOUGH = 12   # rows from which on a product does not get much faster a row


@helper
def urgency(ready, in_loop):
    """Ready rows as the policy weighs them: few rows of a node in a loop go before few of others, which gather meanwhile."""
    return ready + ENOUGH if ready >= ENOUGH or (in_loop != 0 and ready > 0) else ready


@helper
def choose(ready, node_count):
    """The waiting list to serve, -1 when all are empty.

    ready: (2 * node_count,) urgency of rows ready to be taken: backward lists of all nodes, then their forward lists.
    """
    backward, most = -1, 0
    for k in range(node_count):
        if ready[k] > most:
            backward, most = k, ready[k]
    if most >= 2 * ENOUGH:
        return backward
    forward, rows = -1, 0
    for k in range(node_count, 2 * node_count):
        if ready[k] > 0 and ready[k] >= rows:
            forward, rows = k, ready[k]
    return forward if rows > most else backward
