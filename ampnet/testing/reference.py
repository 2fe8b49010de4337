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

from ..graphs.state import State, call_in_python
from ..graphs.tables import in_python

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

    def __init__(self, graph, key=0):
        """key: of random draws, as in `Machine.run`."""
        graph.check()
        self.graph, self.key = graph, key
        self.parameters = {name: value.astype(np.float64) for name, value in graph.parameters.items()}
        self.gradients = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self.memory = defaultdict(dict)   # node -> key -> whatever its twin keeps
        self.received = Counter()
        self.loss = self.error = 0.0
        self.correct = self.targets = 0
        self.queue = deque()

    def run(self, instances, order=None, row_index=None):
        self.instances, self.row_index, self.tables = instances, row_index, None
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

    def call(self, function, state, member=None):
        """Call a state function on a state; returns (what it returns, the state afterwards)."""
        named = self.named(state)
        if self.tables is None or self.tables[0] != state[0]:
            columns = {name: self.rows_of(name, state[0])[:, 0] for name in self.graph.tables}
            self.tables = state[0], in_python(columns)
        result = call_in_python(function, named, self.tables[1], member)
        return result, named.as_tuple()

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
        return self.parameters[f"{(node.original or node).name}.{name}"]

    def gradient(self, node, name):
        return self.gradients[f"{(node.original or node).name}.{name}"]
