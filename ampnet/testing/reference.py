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
        run.on(node, node.port_of(run.call(node.function, m.state)[0]), m.state, m.payload)
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
    _, state = run.call(node.function if m.forward else node.inverse, m.state)
    (run.on if m.forward else run.back)(node, 0, state, m.payload)


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
    run.back(node, 0, m.state, p if node.reduction == "sum" else p / len(labels))


@reference(kinds.SelectRow)
def select_row(node, run, m):
    scores = m.payload[:, 0]
    answer = int(run.rows_of(node.column, m.state[0])[0, 0])
    p = np.exp(scores - scores.max())
    p /= p.sum()
    run.loss -= np.log(p[answer])
    run.correct += int(scores.argmax() == answer)
    run.targets += 1
    p[answer] -= 1
    run.back(node, 0, m.state, p[:, None])


@reference(kinds.SquaredError)
def squared_error(node, run, m):
    difference = m.payload - _targets(node, run, m)
    run.loss += 0.5 * (difference ** 2).sum()
    run.error += np.abs(difference).sum() * node.unit
    run.back(node, 0, m.state, difference if node.reduction == "sum" else difference / len(difference))


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(pre, before):
    """(value [h | c], function from dY to (d of the pre-activations, d of each value before)) of a cell with forget gates."""
    i, o, *f, u = np.split(pre, len(before) + 3, axis=1)
    i, o, f, u = _sigmoid(i), _sigmoid(o), [_sigmoid(x) for x in f], np.tanh(u)
    cells = [np.split(value, 2, axis=1)[1] for value in before]
    c = i * u + sum(fk * ck for fk, ck in zip(f, cells, strict=True))
    t = np.tanh(c)

    def backward(d):
        dh, dc = np.split(d, 2, axis=1)
        dc = dc + dh * o * (1 - t * t)
        d_f = [dc * ck * fk * (1 - fk) for fk, ck in zip(f, cells, strict=True)]
        pre = np.hstack([dc * u * i * (1 - i), dh * t * o * (1 - o), *d_f, dc * i * (1 - u * u)])
        return pre, [dc * fk for fk in f]

    return np.hstack([o * t, c]), backward


def _two(node, run, m):
    """The payloads of both inputs, in order, when the second one is here; else None."""
    return _join(node, run, m, 2)


@reference(kinds.TreeLSTMLeaf)
def tree_lstm_leaf(node, run, m):
    w, b = run.parameter(node, "weight"), run.parameter(node, "bias")
    if m.forward:
        y, backward = _lstm(m.payload @ w + b, [])
        run.keep(node, m.state, (m.payload, backward))
        run.on(node, 0, m.state, y)
    else:
        x, backward = run.take(node, m.state)
        d, _ = backward(m.payload)
        run.gradient(node, "weight")[...] += x.T @ d
        run.gradient(node, "bias")[...] += d.sum(axis=0)
        run.back(node, 0, m.state, d @ w.T)


@reference(kinds.LSTMCell, kinds.TreeLSTMBranch)
def lstm(node, run, m):
    first, second = list(node.parameters)[:2]
    w, u, b = (run.parameter(node, name) for name in (first, second, "bias"))
    hidden, is_tree = node.hidden, isinstance(node, kinds.TreeLSTMBranch)
    if m.forward:
        both = _two(node, run, m)
        if both is not None:
            x = both[0][:, :hidden] if is_tree else both[0]
            h = both[1][:, :hidden]
            y, backward = _lstm(x @ w + h @ u + b, both if is_tree else both[1:])
            run.keep(node, m.state, (x, h, backward))
            run.on(node, 0, m.state, y)
    else:
        x, h, backward = run.take(node, m.state)
        d, d_cells = backward(m.payload)
        run.gradient(node, first)[...] += x.T @ d
        run.gradient(node, second)[...] += h.T @ d
        run.gradient(node, "bias")[...] += d.sum(axis=0)
        run.back(node, 0, m.state, np.hstack([d @ w.T, d_cells[0]]) if is_tree else d @ w.T)
        run.back(node, 1, m.state, np.hstack([d @ u.T, d_cells[-1]]))


@reference(kinds.GRUCell)
def gru(node, run, m):
    w, u, b = (run.parameter(node, name) for name in ("weight", "recurrent", "bias"))
    hidden = node.hidden
    if m.forward:
        both = _two(node, run, m)
        if both is not None:
            x, h = both
            n, r, z = np.split(x @ w + b[:3 * hidden], 3, axis=1)
            r_h, z_h, part = np.split(h @ u, 3, axis=1)
            r, z, part = _sigmoid(r + r_h), _sigmoid(z + z_h), part + b[3 * hidden:]
            n = np.tanh(n + r * part)
            run.keep(node, m.state, (x, h, n, r, z, part))
            run.on(node, 0, m.state, (1 - z) * n + z * h)
    else:
        x, h, n, r, z, part = run.take(node, m.state)
        d = m.payload
        d_n = d * (1 - z) * (1 - n * n)
        d_z, d_r, d_part = d * (h - n) * z * (1 - z), d_n * part * r * (1 - r), d_n * r
        to_x, to_h = np.hstack([d_n, d_r, d_z]), np.hstack([d_r, d_z, d_part])
        run.gradient(node, "weight")[...] += x.T @ to_x
        run.gradient(node, "recurrent")[...] += h.T @ to_h
        run.gradient(node, "bias")[...] += np.hstack([to_x, d_part]).sum(axis=0)
        run.back(node, 0, m.state, to_x @ w.T)
        run.back(node, 1, m.state, to_h @ u.T + d * z)


@reference(kinds.Narrow, kinds.Pad)
def resize(node, run, m):
    width = node.width if m.forward else node.inputs[0].width
    y = np.zeros((len(m.payload), width))
    both = min(width, m.payload.shape[1])
    y[:, :both] = m.payload[:, :both]
    (run.on if m.forward else run.back)(node, 0, m.state, y)


@reference(kinds.SumRows)
def sum_rows(node, run, m):
    if m.forward:
        run.keep(node, m.state, len(m.payload))
        run.on(node, 0, m.state, m.payload.sum(axis=0, keepdims=True))
    else:
        run.back(node, 0, m.state, np.repeat(m.payload, run.take(node, m.state), axis=0))


@reference(kinds.GatedSum)
def gated_sum(node, run, m):
    if m.forward:
        both = _two(node, run, m)
        if both is not None:
            gate, x = _sigmoid(both[0]), both[1]
            run.keep(node, m.state, (gate, x))
            run.on(node, 0, m.state, (gate * x).sum(axis=0, keepdims=True))
    else:
        gate, x = run.take(node, m.state)
        run.back(node, 0, m.state, m.payload * x * gate * (1 - gate))
        run.back(node, 1, m.state, m.payload * gate)


@reference(kinds.Gather)
def gather(node, run, m):
    index = run.rows_of(node.index_columns[0], m.state[0])[:, 0].astype(int)
    if m.forward:
        run.on(node, 0, m.state, m.payload[index])
    else:
        d = np.zeros((len(run.rows_of(node.size_of, m.state[0])), m.payload.shape[1]))
        np.add.at(d, index, m.payload)
        run.back(node, 0, m.state, d)


@reference(kinds.ScatterAdd)
def scatter_add(node, run, m):
    pairs = [run.rows_of(name, m.state[0]).astype(int) for name in node.index_columns]
    if m.forward:
        parts = _join(node, run, m, len(node.inputs))
        if parts is not None:
            y = np.zeros((len(run.rows_of(node.size_of, m.state[0])), parts[0].shape[1]))
            for part, pair in zip(parts, pairs, strict=True):
                np.add.at(y, pair[:, 1], part[pair[:, 0]])
            run.on(node, 0, m.state, y)
    else:
        for port, (size, pair) in enumerate(zip(node.sizes, pairs, strict=True)):
            d = np.zeros((len(run.rows_of(size, m.state[0])), m.payload.shape[1]))
            np.add.at(d, pair[:, 0], m.payload[pair[:, 1]])
            run.back(node, port, m.state, d)


WORD = (1 << 64) - 1


def _mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def dropout_mask(node, key, state, count):
    """0, or 1 / (1 - rate), for each of `count` elements."""
    words = np.zeros(8, np.int32)
    words[:len(state)] = state
    h = _mix(key ^ _mix(node.stream))
    for word in words.view(np.uint64):
        h = _mix(h ^ int(word))
    bits = [_mix((h + (i // 2 + 1) * 0x9E3779B97F4A7C15) & WORD) >> 32 * (i % 2) & 0xFFFFFFFF for i in range(count)]
    return np.array([b >= int(node.rate * 2**32) for b in bits]) / (1 - node.rate)


@reference(kinds.Dropout)
def dropout(node, run, m):
    mask = dropout_mask(node, run.key, m.state, m.payload.size).reshape(m.payload.shape)
    (run.on if m.forward else run.back)(node, 0, m.state, m.payload * mask)


def _collect(node, run, key, place, size, payload):
    """Rows of a group in their places, or None while some are missing; what is kept is (place -> row)."""
    rows = run.memory[node].setdefault(key, {})
    assert place not in rows, f"'{node.name}' got place {place} of {key} twice"
    rows[place] = payload
    if len(rows) < size:
        return None
    return [row for _, row in sorted(run.take(node, key).items())]


@reference(kinds.Group)
def group(node, run, m):
    if m.forward:
        place, _ = run.call(node.functions["place"], m.state)
        _, key = run.call(node.functions["group"], m.state)
        size, _ = run.call(node.functions["size"], key)
        rows = _collect(node, run, key, place, size, (m.state, m.payload))
        if rows is not None:
            run.keep(node, ("members", key), [state for state, _ in rows])
            run.on(node, 0, key, np.vstack([row for _, row in rows]))
    else:
        for state, row in zip(run.take(node, ("members", m.state)), m.payload, strict=True):
            run.back(node, 0, state, row[None, :])


@reference(kinds.Ungroup)
def ungroup(node, run, m):
    if m.forward:
        if len(m.payload) == 0:
            run.back(node, 0, m.state, m.payload)
            return
        run.keep(node, ("rows", m.state), len(m.payload))
        for i, row in enumerate(m.payload):
            _, state = run.call(node.functions["member"], m.state, i)
            run.on(node, 0, state, row[None, :])
    else:
        place, _ = run.call(node.functions["place"], m.state)
        _, key = run.call(node.functions["group"], m.state)
        rows = _collect(node, run, key, place, run.memory[node]["rows", key], m.payload)
        if rows is not None:
            run.take(node, ("rows", key))
            run.back(node, 0, key, np.vstack(rows))


@reference(kinds.Flatmap)
def flatmap(node, run, m):
    if m.forward:
        size, _ = run.call(node.functions["size"], m.state)
        if size <= 0:
            run.back(node, 0, m.state, np.zeros_like(m.payload))
            return
        run.keep(node, m.state, [size, 0.0])
        for i in range(size):
            _, state = run.call(node.functions["member"], m.state, i)
            run.on(node, 0, state, m.payload)
    else:
        _, key = run.call(node.functions["group"], m.state)
        kept = run.memory[node][key]
        kept[0], kept[1] = kept[0] - 1, kept[1] + m.payload
        if kept[0] == 0:
            run.back(node, 0, key, run.take(node, key)[1])
