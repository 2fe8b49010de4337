"""First parts that a Linear multiplies early, and their gradients that it puts off."""

import numpy as np
import pytest

from ampnet.datasets import Column, Instances
from ampnet.graphs import Graph, Linear, Machine, SquaredError, rnn
from ampnet.runtime.loops import in_loops
from ampnet.testing import check_drained
from tests.graphs.by_hand import ByHand
from tests.graphs.helpers import assert_equals_reference, sequences

VOCAB, WIDTH, HIDDEN, CLASSES, RATE = 7, 5, 3, 4, 0.5


def lists(lengths, seed=0):
    rng = np.random.default_rng(seed)
    tokens, offsets = rng.integers(0, VOCAB, sum(lengths)), np.concatenate([[0], np.cumsum(lengths)])
    return Instances({"tokens": Column(tokens, offsets, "tokens"),
                      "label": Column(rng.integers(0, CLASSES, len(lengths)), name="label")})


def network(seed=1):
    graph = rnn(VOCAB, CLASSES, WIDTH, HIDDEN).initialise(seed)
    for parameter in graph.named_parameters().values():
        parameter.value += 0.05
    return graph


def node_called(graph, name):
    return next(node for node in graph.nodes if node.name == name)


@pytest.mark.parametrize("keys, workers", [(1, 1), (2, 1), (9, 1), (9, 2)])
@pytest.mark.parametrize("longest", [2, 7, 30])
def test_gradients_and_losses_are_the_references(longest, keys, workers):
    rng = np.random.default_rng(longest)
    assert_equals_reference(network(), lists(list(rng.integers(1, longest + 1, 25))), workers, keys)


@pytest.mark.parametrize("length, calls", [(1, 1), (5, 1), (11, 1), (13, 2)])
def test_tokens_of_a_list_are_answered_together(length, calls):
    graph = network()
    machine = Machine(graph)
    machine.optimizer("sgd", RATE)
    run = machine.run(lists([length]), max_active_keys=1)
    number = node_called(graph, "embedding").number
    assert (run.calls[0, number], run.rows[0, number]) == (calls, length)
    check_drained(machine, run)


def test_an_update_leaves_no_answer_for_other_weights():
    """The cell updates itself after every gradient, the others never: each token's answer is of the weights before."""
    graph, data = network(), lists([4])
    values = {name: p.value.astype(float) for name, p in graph.named_parameters().items()}
    node_called(graph, "cell").min_update_frequency = 1
    machine = Machine(graph)
    machine.optimizer("sgd", RATE)
    check_drained(machine, machine.run(data, max_active_keys=1))
    tokens, label = data.columns["tokens"].integers()[:, 0], int(data.columns["label"].integers()[0, 0])
    w, b = values["cell.weight"], values["cell.bias"]
    hs = [np.zeros(HIDDEN)]
    for token in tokens:
        hs.append(np.maximum(np.concatenate([values["embedding.weight"][token], hs[-1]]) @ w + b, 0))
    logits = hs[-1] @ values["classifier.weight"] + values["classifier.bias"]
    p = np.exp(logits - logits.max())
    d = p / p.sum() - np.eye(CLASSES)[label]
    dh, expected = values["classifier.weight"] @ d, np.zeros((VOCAB, WIDTH))
    for t in reversed(range(len(tokens))):
        dz = dh * (hs[t + 1] > 0)
        dx = w @ dz
        expected[tokens[t]] += dx[:WIDTH]
        dh = dx[WIDTH:]
        w = w - RATE * np.outer(np.concatenate([values["embedding.weight"][tokens[t]], hs[t]]), dz)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(graph.named_parameters()["embedding.weight"].gradient, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(graph.named_parameters()["cell.weight"].value, w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("is_updated", [False, True])
def test_what_was_multiplied_early_is_of_the_weights_of_now(is_updated):
    g = Graph("place")
    first, second = (Linear(4, width, name=name)(g.matrix("x", 4)) for width, name in ((3, "a"), (2, "b")))
    node = Linear(5, 6, name="node")
    SquaredError("target")(node(first, second))
    hand = ByHand(g.initialise(1), sequences(2, width=4, target=6))
    rng = np.random.default_rng(0)
    x, h, weight = rng.standard_normal((2, 1, 3)), rng.standard_normal((2, 1, 2)), node.parameters["weight"].value
    assert hand.send_all([(0, (0, i), x[i]) for i in range(2)]) == []
    if is_updated:
        weight[...] = rng.standard_normal(weight.shape)
        hand.record["version"] += 1
    for i in range(2):
        (_, _, _, y), = hand.send(1, (0, i), h[i])
        np.testing.assert_allclose(y, np.concatenate([x[i], h[i]], 1) @ weight, rtol=1e-5, atol=1e-6)


def test_nodes_in_loops():
    assert list(in_loops([[1], [2], [1, 3], []])) == [False, True, True, False]
    assert list(in_loops([[1], []])) == [False, False]
    graph = network()
    found = in_loops([[output.target[0].number for output in node.outputs] for node in graph.nodes])
    assert {node.name for node, is_in in zip(graph.nodes, found, strict=True) if is_in} == {"loop", "cell", "has_next", "next"}
