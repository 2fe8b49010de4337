"""Twins of the node kinds for the reference executor: sources, layers, joins, control flow, losses."""

import numpy as np

from ..graphs import nodes as kinds
from .reference import reference

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
        parts = join_parts(node, run, m, len(node.inputs))
        if parts is not None:
            x = np.hstack(parts)
            y = function(x @ w + b)
            run.keep(node, m.state, (x, y))
            run.on(node, 0, m.state, y)
    else:
        x, y = run.take(node, m.state)
        d = m.payload * derivative(y)
        run.gradient(node, "weight")[...] += x.T @ d
        run.gradient(node, "bias")[...] += d.sum(axis=0)
        ends = np.cumsum(node.part_widths)[:-1]
        for port, dx in enumerate(np.split(d @ w.T, ends, axis=1)):
            run.back(node, port, m.state, dx)


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


def join_parts(node, run, m, ports):
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
        parts = join_parts(node, run, m, len(node.inputs))
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
        parts = join_parts(node, run, m, len(node.outputs))
        if parts is not None:
            run.back(node, 0, m.state, np.hstack(parts))


@reference(kinds.Bcast)
def bcast(node, run, m):
    if m.forward:
        for port in range(len(node.outputs)):
            run.on(node, port, m.state, m.payload)
    else:
        parts = join_parts(node, run, m, len(node.outputs))
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
