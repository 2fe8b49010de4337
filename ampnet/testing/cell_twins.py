"""Twins of the recurrent cells and of dropout for the reference executor."""

import numpy as np

from ..graphs import nodes as kinds
from .reference import reference
from .twins import join_parts


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(pre, before):
    """(value [h | c], function from dY to (d of the pre-activations, d of each value before)) of a cell with forget gates."""
    i, o, *f, u = np.split(pre, len(before) + 3, axis=1)
    i, o, f, u = sigmoid(i), sigmoid(o), [sigmoid(x) for x in f], np.tanh(u)
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
        both = join_parts(node, run, m, 2)
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
        both = join_parts(node, run, m, 2)
        if both is not None:
            x, h = both
            n, r, z = np.split(x @ w + b[:3 * hidden], 3, axis=1)
            r_h, z_h, part = np.split(h @ u, 3, axis=1)
            r, z, part = sigmoid(r + r_h), sigmoid(z + z_h), part + b[3 * hidden:]
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
