"""Floating-point operations that training on an instance takes, counted from model and data: those of matrix products.

A product of (rows, inputs) by (inputs, outputs) counts 2 x rows x inputs x outputs forward and twice that backward, for the
gradients of its weights and of its input; once where the input is data and needs none. Gates, activations, losses, sums over
edges, optimizers, and what a contestant computes besides, for padding or for edges that are not there, count nothing.
"""

from itertools import pairwise

import numpy as np


def product(rows, inputs, outputs, input_gradient=True):
    return (6 if input_gradient else 4) * rows * inputs * outputs


def perceptron(sample):
    o, m = sample.options, sample.meta
    widths = [m["width"], *[o["hidden"]] * (o["layers"] - 1), m["classes"]]
    return sum(product(1, *ends, number > 0) for number, ends in enumerate(pairwise(widths)))


def recurrent(sample):
    o, tokens = sample.options, rows_an_instance(sample, "tokens")
    return product(tokens, o["embedding"] + o["hidden"], o["hidden"]) + product(1, o["hidden"], sample.meta["classes"])


def tree_lstm(sample):
    o, leaves, nodes = sample.options, rows_an_instance(sample, "words"), rows_an_instance(sample, "label")
    hidden = o["hidden"]
    return (product(leaves, o["embedding"], 3 * hidden) + product(nodes - leaves, 2 * hidden, 5 * hidden)
            + product(nodes, hidden, sample.meta["classes"]))


def graph_network(sample):
    """An edge type's product is counted for each node from which such an edge leaves."""
    o, m = sample.options, sample.meta
    hidden, nodes = o["hidden"], rows_an_instance(sample, "annotation")
    sources = sum(rows_an_instance(sample, f"sources{k + 1}") for k in range(m["edge_types"]))
    steps = o["steps"] * (product(sources, hidden, hidden) + product(nodes, 2 * hidden, 3 * hidden))
    both = hidden + m["annotation"]
    if "answer" in sample.instances.columns:
        return steps + product(nodes, both, 1)
    return (steps + product(nodes, both, hidden) + product(nodes, hidden, hidden) + product(1, hidden, hidden)
            + product(1, hidden, 1))


def rows_an_instance(sample, column):
    return float(np.diff(sample.instances[column].offsets).mean())
