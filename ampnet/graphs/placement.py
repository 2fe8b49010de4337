"""Which worker hosts which node."""

import heapq

from ..errors import SettingError


def balance(graph, workers):
    """Longest processing time first: the heaviest node goes to the worker with the least so far.

    Weights are the floating-point operations of one row, forward and backward; nodes that only route weigh nothing and go
    to the worker of the node they feed, so that a message does not change workers to be routed. Returns node -> worker.
    """
    loads = [(0, w) for w in range(workers)]
    placed = {}
    heavy = sorted((n for n in graph.nodes if not n.roaming and not n.immediate),
                   key=lambda n: (-n.cost() - n.backward_cost(), n.number))
    for node in heavy:
        load, worker = heapq.heappop(loads)
        placed[node] = worker
        heapq.heappush(loads, (load + node.cost() + node.backward_cost(), worker))
    for node in graph.nodes:
        if node.immediate and not node.roaming:
            placed[node] = placed.get(_first_heavy_after(node), 0)
    for node in graph.nodes:
        if node.worker is not None and not node.roaming:
            placed[node] = _fixed(node, workers)
    return placed


def _fixed(node, workers):
    if not 0 <= node.worker < workers:
        raise SettingError(f"'{node.name}' is placed on worker {node.worker}, but there are {workers} (numbered from 0)")
    return node.worker


def _first_heavy_after(node):
    seen, todo = set(), [node]
    while todo:
        node = todo.pop(0)
        if not node.immediate:
            return node
        if node not in seen:
            seen.add(node)
            todo += [output.target[0] for output in node.outputs]
    return None
