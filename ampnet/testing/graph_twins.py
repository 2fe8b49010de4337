"""Twins for the reference executor of the node kinds that move, group and sum rows."""

import numpy as np

from ..graphs import nodes as kinds
from .cell_twins import sigmoid
from .reference import reference
from .twins import join_parts


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
        both = join_parts(node, run, m, 2)
        if both is not None:
            gate, x = sigmoid(both[0]), both[1]
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
        parts = join_parts(node, run, m, len(node.inputs))
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
