"""Weights that a node updates block by block, from the rows put aside, against steps of the twins."""

import numpy as np
import pytest

from ampnet.datasets import Column, Instances
from ampnet.graphs import Graph, Machine
from ampnet.graphs.nodes import Bcast, Linear, SquaredError
from ampnet.testing import Reference, check_drained
from tests import naive
from tests.graphs.helpers import ragged, sequences
from tests.naive import distance

GATHERED, UPDATES, RATE = 3, 4, 0.02
# Inner widths: whole blocks and remainders, several blocks side by side, weights that are far, and small ones.
WIDTHS = [(7, 5), (24, 48), (50, 33), (330, 400), (40, 1600)]


def network(first, second):
    """Linear, and Linear on two inputs, whose weight has a record for each part."""
    graph = Graph()
    x, again = Bcast(2)(graph.matrix("x", 9))
    hidden = Linear(9, first, "tanh", name="one")(x)
    both = Linear(9 + first, second, "tanh", name="two")(again, Linear(first, first, name="middle")(hidden))
    SquaredError("row_target")(Linear(second, 2, name="last")(both))
    return graph.initialise(4)


def twin(graph, instances, optimizer, decay, clip):
    """Parameters after updates of each node from every GATHERED instances, one in flight."""
    run = Reference(graph)
    moments = {name: (np.zeros_like(value), np.zeros_like(value)) for name, value in run.parameters.items()}
    for number in range(1, UPDATES + 1):
        run.run(instances, order=range((number - 1) * GATHERED, number * GATHERED))
        for node in {name.split(".")[0] for name in run.parameters}:
            names = [name for name in run.parameters if name.split(".")[0] == node]
            gradients = {name: run.gradients[name] / GATHERED for name in names}
            norm = np.sqrt(sum((g * g).sum() for g in gradients.values()))
            factor = clip / norm if clip and norm > clip else 1.0
            for name in names:
                value, *moments[name] = naive.step(
                    optimizer, run.parameters[name], factor * gradients[name], *moments[name], number=number, rate=RATE,
                    beta1=0.9, beta2=0.999, epsilon=1e-8, decay=decay)
                run.parameters[name][...] = value
                run.gradients[name][...] = 0
    return run.parameters


@pytest.mark.parametrize("longest", [5, 120], ids=["few rows", "more rows than there is room for"])
@pytest.mark.parametrize("optimizer, decay, clip", [("sgd", 0.0, 0.0), ("sgd", 0.1, 0.01), ("momentum", 0.0, 0.0),
                                                    ("adagrad", 0.0, 0.0), ("adam", 0.01, 0.0), ("adam", 0.0, 0.05)])
def test_updates_equal_the_twins(optimizer, decay, clip, longest):
    for widths in WIDTHS:
        graph = network(*widths)
        start = {name: value.copy() for name, value in graph.parameters.items()}
        instances = sequences(GATHERED * UPDATES, width=9, longest=longest)
        expected = twin(graph, instances, optimizer, decay, clip)
        machine = Machine(graph, 1, min_update_frequency=GATHERED)
        machine.optimizer(optimizer, RATE, momentum=0.9, beta2=0.999, weight_decay=decay, clip=clip)
        check_drained(machine, machine.run(instances, max_active_keys=1))
        limit = 1e-2 if optimizer in ("adagrad", "adam") else 1e-4   # they blow up the smallest gradients
        for name, value in graph.parameters.items():
            assert distance(value - start[name], expected[name] - start[name]) < limit, (widths, name)
            assert not graph.named_parameters()[name].gradient.any()


@pytest.mark.parametrize("longest", [1, 5, 120])
def test_weights_written_between_runs_are_used(longest):
    """Far ones are multiplied from copies, which must not outlive what they are copies of."""
    graph, instances = network(330, 400), sequences(6, width=9, longest=longest)
    machine = Machine(graph)
    for factor in (1.0, 0.5, 0.25):
        for value in graph.parameters.values():
            value *= np.float32(factor)
        for training in (False, True, False):
            run = machine.run(instances, training=training, max_active_keys=1)
            expected = Machine(graph).run(instances, training=training, max_active_keys=1)
            assert np.array_equal(run.loss, expected.loss)
            machine.forget()


def test_a_transposed_copy_is_of_the_weights_of_now():
    """128 columns: many rows are multiplied by a copy, few straight by the weights; updates between any two of them."""
    lengths = [20, 3, 20, 20, 3, 3, 20, 1, 12, 11]
    rng = np.random.default_rng(0)
    data = Instances({"x": ragged(rng, lengths, 4, "x"), "target": ragged(rng, lengths, 128, "target")})
    graph = Graph()
    before, node = Linear(4, 5, name="before"), Linear(5, 128, name="node")
    SquaredError("target")(node(before(graph.matrix("x", 4))))
    graph.initialise(1)
    weights, rate = graph.named_parameters(), 0.5
    start, expected = weights["node.weight"].value.copy(), np.zeros((4, 5))
    for i in range(len(lengths)):   # the reference, an instance at a time, with steps of our own
        one = Instances({name: Column(data[name][i], np.array([0, lengths[i]]), name) for name in ("x", "target")})
        gradients = Reference(graph).run(one).gradients
        expected += gradients["before.weight"]
        weights["node.weight"].value -= rate * gradients["node.weight"]
        weights["node.bias"].value -= rate * gradients["node.bias"]
    stepped = weights["node.weight"].value.copy()
    weights["node.weight"].value[...] = start
    weights["node.bias"].value[...] = 0
    node.min_update_frequency = 1
    machine = Machine(graph)
    machine.optimizer("sgd", rate)
    weights["before.weight"].gradient[...] = 0
    check_drained(machine, machine.run(data, max_active_keys=1))
    machine.engine.nodes[before.number].record["gathered"] = 0
    machine.gather_held()
    assert distance(weights["node.weight"].value, stepped) < 1e-5 and distance(start, stepped) > 1e-3
    assert distance(weights["before.weight"].gradient, expected) < 1e-5
