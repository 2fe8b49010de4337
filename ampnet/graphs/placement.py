"""Which worker hosts which node.

Nodes that only route cost nothing and go to the worker of the node they feed, so that a message does not change workers to be
routed; roaming ones run wherever a message is. The others are spread so that the busiest worker has as little to do as
possible: exactly, by a mixed-integer program, where there are few, else longest processing time first. What each costs is
counted (floating-point operations) or measured (`measure`). Copies of a replicated node go to different workers.
"""

import numpy as np

from ..errors import SettingError
from ..runtime.update import UNLIMITED

EXACT_NODES = 24         # at most so many are placed by the exact method
EXACT_SECONDS = 2.0      # after which the best placement found is taken
FEW, MEASURED_EVENTS = 8, 1 << 17   # instances of a first try; events kept of the measured run
MESSAGE_COST = 5e-7      # seconds that a message to another worker costs, both workers together


def counted_costs(graph):
    """Node -> floating-point operations of one row, forward and backward."""
    return {node: node.cost() + node.backward_cost() for node in graph.nodes if is_placed(node)}


def is_placed(node):
    """Whether a node needs a worker of its own choosing."""
    return not node.roaming and not node.immediate


def balance(graph, workers, costs=None, traffic=None):
    """Node -> worker for every node that does not roam.

    costs: node -> cost, default `counted_costs`; traffic: (node, node) -> cost of being on different workers.
    """
    costs = counted_costs(graph) if costs is None else costs
    allowed = {node: _allowed(node, graph, workers) for node in costs}
    if workers == 1:
        placed = dict.fromkeys(costs, 0)
    elif len(costs) <= EXACT_NODES:
        placed = _exact(costs, allowed, workers, traffic or {})
    else:
        placed = _longest_first(costs, allowed, workers)
    for node in graph.nodes:
        if node.immediate and not node.roaming:
            placed[node] = placed.get(_first_placed_after(node), 0)
            if node.worker is not None:
                placed[node] = _fixed(node, workers)
    return placed


def follow(graph, workers, names):
    """The placement that `names`, node name -> worker, gives; raises SettingError where it is not one of this graph."""
    placed = {}
    for node in graph.nodes:
        if node.roaming:
            continue
        if node.name not in names:
            raise SettingError(f"placement: node '{node.name}' is missing")
        worker = names[node.name]
        if isinstance(worker, bool) or not isinstance(worker, int) or not 0 <= worker < workers:
            raise SettingError(f"placement: '{node.name}' is put on worker {worker!r}, expected 0 to {workers - 1}")
        placed[node] = worker
    known = {node.name for node in placed}
    for name in names:
        if name not in known:
            raise SettingError(f"placement: there is no node '{name}' to place; there are: {', '.join(sorted(known))}")
    return placed


def _allowed(node, graph, workers):
    """Workers a node may go to."""
    if node.worker is not None:
        return [_fixed(node, workers)]
    copied = node.original is not None or any(other.original is node for other in graph.nodes)
    if not copied:
        return list(range(workers))
    own = [w for w in range(workers) if w % graph.replicas == node.replica]
    return own or [node.replica % workers]


def _fixed(node, workers):
    if not 0 <= node.worker < workers:
        raise SettingError(f"'{node.name}' is placed on worker {node.worker}, but there are {workers} (numbered from 0)")
    return node.worker


def _longest_first(costs, allowed, workers):
    """The heaviest node goes to the worker with the least so far."""
    loads, placed = [0.0] * workers, {}
    for node in sorted(costs, key=lambda n: (-costs[n], n.number)):
        placed[node] = min(allowed[node], key=lambda w: (loads[w], w))
        loads[placed[node]] += costs[node]
    return placed


def _exact(costs, allowed, workers, traffic):
    """Minimise the largest load, and among placements of equal load the traffic between workers.

    Unknowns: one a node and worker (0 or 1), one a pair with traffic (at least 1 where they are apart), the largest load.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    nodes, pairs = list(costs), list(traffic)
    scale = max(sum(costs.values()), 1e-30)
    count = len(nodes) * workers
    top = count + len(pairs)

    def at(node, worker):
        return nodes.index(node) * workers + worker

    rows, low, high = [], [], []

    def require(entries, least, most):
        row = np.zeros(top + 1)
        for index, value in entries:
            row[index] += value
        rows.append(row)
        low.append(least)
        high.append(most)

    for node in nodes:
        require([(at(node, w), 1) for w in range(workers)], 1, 1)
    for w in range(workers):
        require([*((at(n, w), costs[n] / scale) for n in nodes), (top, -1)], -np.inf, 0)
    for i, (a, b) in enumerate(pairs):
        for w in range(workers):
            require([(at(a, w), 1), (at(b, w), -1), (count + i, -1)], -np.inf, 0)
    upper = np.ones(top + 1)
    for node in nodes:
        for w in set(range(workers)) - set(allowed[node]):
            upper[at(node, w)] = 0
    aim = np.zeros(top + 1)
    aim[count:top] = [traffic[pair] / workers / scale for pair in pairs]
    aim[:count] = [1e-9 * (i % workers) for i in range(count)]   # between equals the lower worker, so that it is settled
    aim[top] = 1
    whole = np.ones(top + 1)
    whole[count:] = 0
    found = milp(aim, constraints=LinearConstraint(np.array(rows), low, high), bounds=Bounds(0, upper), integrality=whole,
                 options={"time_limit": EXACT_SECONDS})
    if found.x is None:
        return _longest_first(costs, allowed, workers)
    return {node: int(np.argmax(found.x[at(node, 0):at(node, 0) + workers])) for node in nodes}


def _first_placed_after(node):
    seen, todo = set(), [node]
    while todo:
        node = todo.pop(0)
        if is_placed(node):
            return node
        if node not in seen:
            seen.add(node)
            todo += [output.target[0] for output in node.outputs]
    return None


def measure(make_machine, instances, seconds=0.5):
    """Time the nodes on a short run of training without updates: (node -> seconds, (node, node) -> seconds of traffic).

    make_machine: function of the trace's length -> Machine with one worker. Neither parameters nor optimizer state change,
    and no random number is drawn.
    """
    machine = make_machine(MEASURED_EVENTS)
    for node in machine.engine.nodes:
        node.record["min_update_frequency"] = UNLIMITED   # a node's own number goes before the machine's
    few = np.arange(min(FEW, len(instances)))
    _trial(machine, instances, few)   # warms the caches
    rate = len(few) / max(_trial(machine, instances, few).seconds, 1e-6)
    run = _trial(machine, instances, np.arange(min(len(instances), max(len(few), int(rate * seconds)))))
    graph, node_count = machine.graph, len(machine.graph.nodes)
    events = run.events[0]
    spent = np.zeros(2 * node_count)
    np.add.at(spent, events[:, 2], (events[:, 1] - events[:, 0]) / 1e9)
    costs = {n: spent[n.number] + spent[node_count + n.number] for n in graph.nodes if is_placed(n)}
    traffic, port = {}, 0
    for node in graph.nodes:
        for source in node.inputs:
            before, after = _last_placed_before(source.node), node
            if is_placed(after) and before is not None and before is not after:
                pair = (before, after)
                traffic[pair] = traffic.get(pair, 0) + 2 * MESSAGE_COST * run.received_forward[port]
            port += 1
    return costs, traffic


def _trial(machine, instances, order):
    run = machine.run(instances, order, max_active_keys=16)
    machine.forget()
    return run


def _last_placed_before(node):
    """Through nodes with one input, back to the one that has a worker; None where that is not clear."""
    while not is_placed(node):
        if len(node.inputs) != 1:
            return None
        node = node.inputs[0].node
    return node
