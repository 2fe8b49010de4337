"""Zeros travel without payload where all their readers know what that means."""

import pytest

from ampnet.graphs import Bcast, Concat, Cond, Graph, Linear, LSTMCell, Machine, Narrow, Phi, SquaredError
from tests.graphs.helpers import assert_equals_reference, sequences


def is_even(s):
    return s.instance % 2 == 0


def only(g):
    return Linear(2, 2, "tanh")(g.zeros(2, name="nothing"))


def first(g):
    return Linear(5, 2, "relu")(g.zeros(2, name="nothing"), g.matrix("x", 3))


def second(g):
    return Linear(5, 2, "relu")(g.matrix("x", 3), g.zeros(2, name="nothing"))


def both(g):
    return Linear(5, 2)(g.zeros(3), g.zeros(2, name="nothing"))


def routed(g):
    """To one of two Linears, whose outputs meet again."""
    even, odd = Cond(is_even)(g.zeros(2, name="nothing"))
    return Phi()(Linear(2, 2)(even), Linear(2, 2, "relu")(odd))


def cell(g):
    return Narrow(2)(LSTMCell(3, 2)(g.matrix("x", 3), g.zeros(4, name="nothing")))


def joined(g):
    return Linear(5, 2)(Concat()(g.matrix("x", 3), g.zeros(2, name="nothing")))


def shared(g):
    a, b = Bcast(2)(g.zeros(2, name="nothing"))
    return Linear(4, 2, "sigmoid")(a, b)


def made(build):
    g = Graph()
    SquaredError("target")(build(g))
    return g.initialise(1)


def width_of(graph):
    machine = Machine(graph)
    number = [node.name for node in graph.nodes].index("nothing")
    return machine.engine.nodes[number].record["width"][0]


@pytest.mark.parametrize("workers, keys", [(1, 1), (1, 7), (2, 7)])
@pytest.mark.parametrize("build", [only, first, second, both, routed, cell, joined, shared])
def test_gradients_are_those_of_zeros(build, workers, keys):
    assert_equals_reference(made(build), sequences(20, longest=1), workers, keys)


@pytest.mark.parametrize("build, width", [(only, 0), (second, 0), (routed, 0), (cell, 4), (joined, 2), (shared, 2)])
def test_only_readers_that_know_get_them_without_payload(build, width):
    assert width_of(made(build)) == width
