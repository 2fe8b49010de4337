"""Two instances in one node at a time: whatever the order, each gets what it gets alone, bit for bit."""

import numpy as np
import pytest

from ampnet.datasets import Column, Instances
from ampnet.graphs import (
    Bcast,
    Concat,
    Cond,
    Dropout,
    Embedding,
    Flatmap,
    GatedSum,
    Gather,
    Graph,
    Group,
    GRUCell,
    Isu,
    Linear,
    LSTMCell,
    Narrow,
    Pad,
    Phi,
    Relu,
    ScatterAdd,
    SelectRow,
    Sigmoid,
    SoftmaxCrossEntropy,
    Split,
    SquaredError,
    SumRows,
    Tanh,
    TreeLSTMBranch,
    TreeLSTMLeaf,
    Ungroup,
)
from ampnet.graphs import nodes as kinds

from .by_hand import ByHand

ROWS = (2, 3)   # of the payloads of the two instances


def instances():
    offsets = np.array([0, 2, 5])
    rng = np.random.default_rng(0)
    return Instances({
        "x": Column(rng.standard_normal((5, 4)), offsets, "x"),
        "label": Column(np.array([1, 0, 2, 3, 1]), offsets, "label"),
        "answer": Column(np.array([1, 2]), name="answer"),
        "target": Column(rng.standard_normal((5, 4)), offsets, "target"),
        "index": Column(np.array([1, 0, 1, 2, 2]), np.array([0, 3, 5]), "index"),
        "pairs": Column(np.array([[0, 1], [2, 1], [1, 0], [1, 1]]), np.array([0, 2, 4]), "pairs"),
        "sizes": Column(np.zeros(5), np.array([0, 3, 5]), "sizes"),
    })


def member(s, i):
    s.place = i + 1


def group(s):
    s.place = 0


def place(s):
    return s.place - 1


def size(s):
    return s.instance + 2


def advance(s):
    s.place += 1


def retreat(s):
    s.place -= 1


# kind -> (a node of it, widths of its inputs). Payloads have ROWS rows unless ONE_ROW or INDEX_ROWS says otherwise.
CASES = {
    Linear: (lambda: Linear(4, 3, "tanh", name="node"), [4]),
    "LinearOfTwo": (lambda: Linear(7, 3, "relu", name="node"), [4, 3]),
    Embedding: (lambda: Embedding(3, 4, name="node"), [1]),
    Relu: (lambda: Relu("node"), [4]),
    Tanh: (lambda: Tanh("node"), [4]),
    Sigmoid: (lambda: Sigmoid("node"), [4]),
    Concat: (lambda: Concat("node"), [4, 3, 2]),
    Split: (lambda: Split(1, 3, name="node"), [4]),
    Bcast: (lambda: Bcast(3, name="node"), [4]),
    Cond: (lambda: Cond(size, outputs=4, name="node"), [4]),
    Phi: (lambda: Phi("node"), [4]),
    Isu: (lambda: Isu(advance, retreat, name="node"), [4]),
    LSTMCell: (lambda: LSTMCell(4, 3, name="node"), [4, 6]),
    TreeLSTMLeaf: (lambda: TreeLSTMLeaf(4, 3, name="node"), [4]),
    TreeLSTMBranch: (lambda: TreeLSTMBranch(2, name="node"), [4, 4]),
    GRUCell: (lambda: GRUCell(4, 3, name="node"), [4, 3]),
    Narrow: (lambda: Narrow(2, name="node"), [4]),
    Pad: (lambda: Pad(7, name="node"), [4]),
    Dropout: (lambda: Dropout(0.4, name="node"), [4]),
    Gather: (lambda: Gather("index", "x", name="node"), [4]),
    ScatterAdd: (lambda: ScatterAdd(["pairs", "pairs"], ["sizes", "sizes"], "x", name="node"), [4, 4]),
    SumRows: (lambda: SumRows("node"), [4]),
    GatedSum: (lambda: GatedSum("node"), [4, 4]),
    Group: (lambda: Group(group, place, size, name="node"), [4]),
    Ungroup: (lambda: Ungroup(member, group, place, name="node"), [4]),
    Flatmap: (lambda: Flatmap(member, group, size, name="node"), [4]),
    SoftmaxCrossEntropy: (lambda: SoftmaxCrossEntropy("label", name="node"), [4]),
    SelectRow: (lambda: SelectRow("answer", name="node"), [1]),
    SquaredError: (lambda: SquaredError("target", name="node"), [4]),
}


def test_every_kind_is_here():
    families = {kinds.Node, kinds.Output, kinds.Matrix, kinds.Rows, kinds.Zeros}
    assert set(CASES) - {"LinearOfTwo"} == {getattr(kinds, name) for name in kinds.__all__} - families


def graph_of(kind):
    """A graph around one node of a kind; what surrounds it never runs, but lets it want an input gradient."""
    make, widths = CASES[kind]
    g = Graph("place")
    node, inputs = make(), []
    for i, width in enumerate(widths):
        inputs.append(Linear(4, width, name=f"before{i}")(g.matrix("x", 4)))
    outputs = node(*inputs) or ()
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        SquaredError("target")(output)
    return g.initialise(3)


def inputs_of(kind, instance):
    """The forward messages of an instance: (port, state, payload)."""
    rng = np.random.default_rng([5, instance])
    rows = ROWS[instance]
    if kind is ScatterAdd:
        rows = (3, 2)[instance]
    if kind is Group:
        return [(0, (instance, i + 1), rng.standard_normal((1, 4))) for i in reversed(range(instance + 2))]
    if kind is Embedding:
        return [(0, (instance, 0), rng.integers(0, 3, (rows, 1)))]
    return [(port, (instance, 0), rng.standard_normal((rows, width))) for port, width in enumerate(CASES[kind][1])]


def gradients_for(sent, instance):
    """A backward message for every forward one that came out."""
    rng = np.random.default_rng([6, instance])
    return [(port, state, rng.standard_normal(payload.shape)) for port, forward, state, payload in sent if forward]


def forward(hand, kind, instance, step):
    """Send the step-th forward message of an instance, if there is one."""
    messages = inputs_of(kind, instance)
    return hand.send(*messages[step]) if step < len(messages) else []


def alone(kind, instance):
    """(messages sent forward and turned around, answers, parameter gradients) of an instance that has the node for itself."""
    hand = ByHand(graph_of(kind), instances())
    sent = [m for step in range(3) for m in forward(hand, kind, instance, step)]
    answers = [a for g in gradients_for(sent, instance) for a in hand.send(*g, forward=False)]
    return sent, answers, hand.take_gradients()


def assert_same(got, expected):
    assert len(got) == len(expected)
    for (port, is_forward, state, payload), (port2, is_forward2, state2, payload2) in zip(got, expected, strict=True):
        assert (port, is_forward, state) == (port2, is_forward2, state2)
        assert payload.tobytes() == payload2.tobytes()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", CASES, ids=lambda k: getattr(k, "__name__", k))
def test_two_instances_at_once(kind, first):
    expected = [alone(kind, instance) for instance in (0, 1)]
    hand = ByHand(graph_of(kind), instances())
    sent = {0: [], 1: []}
    for step in range(3):
        for instance in (0, 1):
            sent[instance] += forward(hand, kind, instance, step)
    for instance in (0, 1):
        assert_same(sent[instance], expected[instance][0])
    for instance in (first, 1 - first):
        answers = [a for g in gradients_for(sent[instance], instance) for a in hand.send(*g, forward=False)]
        assert_same(answers, expected[instance][1])
        for got, alone_ in zip(hand.take_gradients(), expected[instance][2], strict=True):
            assert got.tobytes() == alone_.tobytes()
    assert hand.left_behind() == (0, 0)


@pytest.mark.parametrize("kind", CASES, ids=lambda k: getattr(k, "__name__", k))
def test_backward_messages_interleaved(kind):
    """Nodes with several outputs get their gradients in turns."""
    expected = [alone(kind, instance) for instance in (0, 1)]
    hand = ByHand(graph_of(kind), instances())
    gradients, answers = [], {0: [], 1: []}
    for instance in (0, 1):
        sent = [m for step in range(3) for m in forward(hand, kind, instance, step)]
        gradients.append(gradients_for(sent, instance))
    for step in range(max(map(len, gradients))):
        for instance in (1, 0):
            if step < len(gradients[instance]):
                answers[instance] += hand.send(*gradients[instance][step], forward=False)
    for instance in (0, 1):
        assert_same(answers[instance], expected[instance][1])
    total = [a.astype(np.float64) + b for a, b in zip(expected[0][2], expected[1][2], strict=True)]
    for got, both in zip(hand.take_gradients(), total, strict=True):
        np.testing.assert_allclose(got, both, rtol=1e-5, atol=1e-6)
    assert hand.left_behind() == (0, 0)
