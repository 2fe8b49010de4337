"""Each cell's value against its formula, written out."""

import numpy as np
import pytest

from ampnet.errors import GraphError
from ampnet.graphs import Graph, GRUCell, LSTMCell, TreeLSTMBranch, TreeLSTMLeaf

from .by_hand import ByHand
from .test_interleaving import CASES, graph_of, instances

ROWS = 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def value_of(kind, *payloads):
    """What the node of `CASES` makes of its inputs, and its parameters in float64."""
    graph = graph_of(kind)
    hand = ByHand(graph, instances())
    for parameter in hand.node.parameters.values():
        parameter.value[...] = np.random.default_rng(1).standard_normal(parameter.shape)
    sent = [m for port, x in enumerate(payloads) for m in hand.send(port, (0,), x)]
    assert len(sent) == 1
    return sent[0][3], {name: p.value.astype(float) for name, p in hand.node.parameters.items()}


def payloads(kind):
    return [np.random.default_rng(port).standard_normal((ROWS, width)) for port, width in enumerate(CASES[kind][1])]


def test_lstm():
    x, before = payloads(LSTMCell)
    got, p = value_of(LSTMCell, x, before)
    h, c = np.split(before, 2, axis=1)
    i, o, f, u = np.split(x @ p["weight"] + h @ p["recurrent"] + p["bias"], 4, axis=1)
    c = sigmoid(i) * np.tanh(u) + sigmoid(f) * c
    np.testing.assert_allclose(got, np.hstack([sigmoid(o) * np.tanh(c), c]), rtol=1e-5, atol=1e-6)


def test_tree_lstm_leaf():
    x, = payloads(TreeLSTMLeaf)
    got, p = value_of(TreeLSTMLeaf, x)
    i, o, u = np.split(x @ p["weight"] + p["bias"], 3, axis=1)
    c = sigmoid(i) * np.tanh(u)
    np.testing.assert_allclose(got, np.hstack([sigmoid(o) * np.tanh(c), c]), rtol=1e-5, atol=1e-6)


def test_tree_lstm_branch():
    left, right = payloads(TreeLSTMBranch)
    got, p = value_of(TreeLSTMBranch, left, right)
    (h_l, c_l), (h_r, c_r) = np.split(left, 2, axis=1), np.split(right, 2, axis=1)
    i, o, f_l, f_r, u = np.split(h_l @ p["left"] + h_r @ p["right"] + p["bias"], 5, axis=1)
    c = sigmoid(i) * np.tanh(u) + sigmoid(f_l) * c_l + sigmoid(f_r) * c_r
    np.testing.assert_allclose(got, np.hstack([sigmoid(o) * np.tanh(c), c]), rtol=1e-5, atol=1e-6)


def test_gru():
    x, h = payloads(GRUCell)
    got, p = value_of(GRUCell, x, h)
    n, r, z, m = np.split(p["bias"], 4)
    (n_x, r_x, z_x), (r_h, z_h, m_h) = np.split(x @ p["weight"], 3, axis=1), np.split(h @ p["recurrent"], 3, axis=1)
    r, z = sigmoid(r_x + r_h + r), sigmoid(z_x + z_h + z)
    n = np.tanh(n_x + n + r * (m_h + m))
    np.testing.assert_allclose(got, (1 - z) * n + z * h, rtol=1e-5, atol=1e-6)


def test_forget_gates_start_open():
    assert (LSTMCell(2, 3).parameters["bias"].initial(None, 12) == [0] * 6 + [1] * 3 + [0] * 3).all()
    assert (TreeLSTMBranch(2).parameters["bias"].initial(None, 10) == [0] * 4 + [1] * 4 + [0] * 2).all()
    assert not TreeLSTMLeaf(2, 3).parameters["bias"].initial(None, 9).any()
    assert not GRUCell(2, 3).parameters["bias"].initial(None, 12).any()


def test_shapes_that_do_not_fit():
    g = Graph()
    with pytest.raises(GraphError, match=r"takes \(rows, 6\) as input 1 but is fed \(rows, 3\)"):
        LSTMCell(4, 3, name="cell")(g.matrix("x", 4), g.matrix("h", 3))
    with pytest.raises(GraphError, match="takes 2 input, got 1"):
        GRUCell(4, 3, name="gru")(g.matrix("x", 4))
    with pytest.raises(GraphError, match="hidden must be a whole number"):
        TreeLSTMBranch(0)
