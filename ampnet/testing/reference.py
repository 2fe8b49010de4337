"""The plain reference executor: any graph, NumPy float64, one message at a time, in the obvious way.

It is the oracle of all tests and says what the IR means. Messages wait in one first-in-first-out queue; every node kind
has a twin here that turns one message into others. Nothing is shared with the compiled runtime but the graph itself.
Parameters are read once and never updated; gradients are summed.

A node kind of a user's own registers a twin:

    @reference(Scale)
    def scale(node, run, message):
        if message.forward: ...
"""

from collections import Counter, defaultdict, deque
from dataclasses import dataclass

import numpy as np

from ..graphs import nodes as kinds
from ..graphs.state import State

TWINS = {}


def reference(*node_kinds):
    """Register the twin of node kinds: twin(node, run, message) -> None, which sends messages through `run`."""
    def register(twin):
        TWINS.update(dict.fromkeys(node_kinds, twin))
        return twin
    return register


@dataclass(frozen=True)
class Message:
    node: object
    port: int
    forward: bool
    state: tuple
    payload: np.ndarray   # float64 (rows, cols)


class Reference:
    """Runs instances through a graph.

    After `run(instances)`: `gradients` and `parameters` (name -> float64 array), `loss` (sum over rows), `targets` (rows),
    `correct`, `error`, and `received` (node name, port, direction) -> messages.
    """

    def __init__(self, graph):
        graph.check()
        self.graph = graph
        self.parameters = {name: value.astype(np.float64) for name, value in graph.parameters.items()}
        self.gradients = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self.memory = defaultdict(dict)   # node -> key -> whatever its twin keeps
        self.received = Counter()
        self.loss = self.error = 0.0
        self.correct = self.targets = 0
        self.queue = deque()

    def run(self, instances, order=None, row_index=None):
        self.instances, self.row_index = instances, row_index
        for instance in range(len(instances)) if order is None else order:
            state = State(self.graph.fields, [int(instance)] + [0] * (len(self.graph.fields) - 1))
            for field, column in self.graph._fills().items():
                setattr(state, field, len(self.rows_of(column, int(instance))))
            for node in self.graph.nodes:
                if node.is_source:
                    TWINS[type(node)](node, self, Message(node, 0, True, state.as_tuple(), np.zeros((0, 0))))
            while self.queue:
                message = self.queue.popleft()
                self.received[message.node.name, message.port, message.forward] += 1
                TWINS[type(message.node)](message.node, self, message)
        for node, kept in self.memory.items():
            assert not kept, f"'{node.name}' still keeps {list(kept)}"
        return self

    # ---- what twins use

    def rows_of(self, column, instance):
        """An instance's rows of a data column, float64 (rows, width)."""
        column = self.instances.columns[column]
        rows = np.arange(column.offsets[instance], column.offsets[instance + 1])
        if self.row_index is not None:
            rows = self.row_index[rows]
        return column.values[rows].astype(np.float64)

    def named(self, state):
        return State(self.graph.fields, state)

    def on(self, node, port, state, payload):
        """Send forward along an output of a node."""
        target, target_port = node.outputs[port].target
        self.queue.append(Message(target, target_port, True, state, payload))

    def back(self, node, port, state, payload):
        """Send backward along an input of a node."""
        source = node.inputs[port]
        self.queue.append(Message(source.node, source.port, False, state, payload))

    def keep(self, node, key, value):
        assert key not in self.memory[node], f"'{node.name}' got {key} twice"
        self.memory[node][key] = value

    def take(self, node, key):
        return self.memory[node].pop(key)

    def parameter(self, node, name):
        return self.parameters[f"{node.name}.{name}"]

    def gradient(self, node, name):
        return self.gradients[f"{node.name}.{name}"]


ACTIVATIONS = {
    None: (lambda x: x, lambda y: np.ones_like(y)),
    "relu": (lambda x: np.maximum(x, 0), lambda y: (y > 0) * 1.0),
    "tanh": (np.tanh, lambda y: 1 - y * y),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda y: y * (1 - y)),
}


@reference(kinds.Rows)
def rows(node, run, m):
    if m.forward:
        for i, row in enumerate(run.rows_of(node.column, m.state[0])):
            state = run.named(m.state)
            if node.index_field is not None:
                setattr(state, node.index_field, i)
            run.on(node, 0, state.as_tuple(), row[None, :])


@reference(kinds.Matrix)
def matrix(node, run, m):
    if m.forward:
        run.on(node, 0, m.state, run.rows_of(node.column, m.state[0]))


@reference(kinds.Zeros)
def zeros(node, run, m):
    if m.forward:
        run.on(node, 0, m.state, np.zeros((1, node.width)))


@reference(kinds.Linear)
def linear(node, run, m):
    w, b = run.parameter(node, "weight"), run.parameter(node, "bias")
    function, derivative = ACTIVATIONS[node.activation]
    if m.forward:
        y = function(m.payload @ w + b)
        run.keep(node, m.state, (m.payload, y))
        run.on(node, 0, m.state, y)
    else:
        x, y = run.take(node, m.state)
        d = m.payload * derivative(y)
        run.gradient(node, "weight")[...] += x.T @ d
        run.gradient(node, "bias")[...] += d.sum(axis=0)
        run.back(node, 0, m.state, d @ w.T)


@reference(kinds.Embedding)
def embedding(node, run, m):
    if m.forward:
        ids = m.payload[:, 0].astype(int)
        run.keep(node, m.state, ids)
        run.on(node, 0, m.state, run.parameter(node, "weight")[ids])
    else:
        ids = run.take(node, m.state)
        np.add.at(run.gradient(node, "weight"), ids, m.payload)
        run.back(node, 0, m.state, np.zeros((len(ids), 1)))


@reference(kinds.Relu, kinds.Tanh, kinds.Sigmoid)
def activation(node, run, m):
    function, derivative = ACTIVATIONS[node.kind.lower()]
    if m.forward:
        y = function(m.payload)
        run.keep(node, m.state, y)
        run.on(node, 0, m.state, y)
    else:
        run.back(node, 0, m.state, m.payload * derivative(run.take(node, m.state)))


def _join(node, run, m, ports):
    """All parts of a state in the order of their ports, or None while some are missing."""
    parts = run.memory[node].setdefault(m.state, {})
    assert m.port not in parts, f"'{node.name}' got {m.state} twice"
    parts[m.port] = m.payload
    if len(parts) < ports:
        return None
    return [part for _, part in sorted(run.take(node, m.state).items())]


@reference(kinds.Concat)
def concat(node, run, m):
    if m.forward:
        parts = _join(node, run, m, len(node.inputs))
        if parts is not None:
            run.on(node, 0, m.state, np.hstack(parts))
    else:
        cuts = np.cumsum([source.width for source in node.inputs])[:-1]
        for port, part in enumerate(np.split(m.payload, cuts, axis=1)):
            run.back(node, port, m.state, part)


@reference(kinds.Split)
def split(node, run, m):
    if m.forward:
        for port, part in enumerate(np.split(m.payload, np.cumsum(node.widths)[:-1], axis=1)):
            run.on(node, port, m.state, part)
    else:
        parts = _join(node, run, m, len(node.outputs))
        if parts is not None:
            run.back(node, 0, m.state, np.hstack(parts))


@reference(kinds.Bcast)
def bcast(node, run, m):
    if m.forward:
        for port in range(len(node.outputs)):
            run.on(node, port, m.state, m.payload)
    else:
        parts = _join(node, run, m, len(node.outputs))
        if parts is not None:
            run.back(node, 0, m.state, sum(parts))


@reference(kinds.Cond)
def cond(node, run, m):
    if m.forward:
        run.on(node, node.route(run.named(m.state)), m.state, m.payload)
    else:
        run.back(node, 0, m.state, m.payload)


@reference(kinds.Phi)
def phi(node, run, m):
    if m.forward:
        run.keep(node, m.state, m.port)
        run.on(node, 0, m.state, m.payload)
    else:
        run.back(node, run.take(node, m.state), m.state, m.payload)


@reference(kinds.Isu)
def isu(node, run, m):
    state = run.named(m.state)
    (node.function if m.forward else node.inverse)(state)
    (run.on if m.forward else run.back)(node, 0, state.as_tuple(), m.payload)


def _targets(node, run, m):
    rows = run.rows_of(node.column, m.state[0])
    if node.index_field is not None:
        start = getattr(run.named(m.state), node.index_field)
        rows = rows[start:start + len(m.payload)]
    assert len(rows) == len(m.payload), f"'{node.name}' got {len(m.payload)} rows for {len(rows)} targets"
    run.targets += len(rows)
    return rows


@reference(kinds.SoftmaxCrossEntropy)
def softmax_cross_entropy(node, run, m):
    labels = _targets(node, run, m)[:, 0].astype(int)
    shifted = m.payload - m.payload.max(axis=1, keepdims=True)
    p = np.exp(shifted)
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    run.loss -= np.log(p[rows, labels]).sum()
    run.correct += int((m.payload.argmax(axis=1) == labels).sum())
    p[rows, labels] -= 1
    run.back(node, 0, m.state, p / len(labels))


@reference(kinds.SquaredError)
def squared_error(node, run, m):
    difference = m.payload - _targets(node, run, m)
    run.loss += 0.5 * (difference ** 2).sum()
    run.error += np.abs(difference).sum()
    run.back(node, 0, m.state, difference / len(difference))
