"""Embedding: a table whose rows are picked by number."""

import numpy as np

from ...errors import DataError, GraphError
from ...kernels.gather_scatter import gather, scatter_add
from ...runtime.memory import matrix, record
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_ACTIVATION,
    NO_DATA,
    SAME_STATE,
    WRONG_SHAPE,
    answer,
    blame,
    emit,
    is_training,
    messages,
    note_staleness,
    operation,
    payload,
    release,
    send,
    values,
)
from ...runtime.records import node_dtype
from ...runtime.table import keep, take
from ...runtime.update import mark_touched
from ..parameters import Parameter, normal
from .node import Node, positive, shape

EMBEDDING_DTYPE = node_dtype("weight", "weight_gradient", "parameter")
EMBEDDING = record(EMBEDDING_DTYPE)


class Embedding(Node):
    """Y[r] = W[ids[r]]. ids (rows, 1), whole numbers in [0, vocab) written as float32; W (vocab, width).

    W starts normal with deviation 1, as in PyTorch; `scale` is another deviation, `vectors` (vocab, width) are values to
    start from instead. Updates touch only the rows that have gradients.
    """

    dtype, transparent = EMBEDDING_DTYPE, True

    def __init__(self, vocab, width, scale=1.0, vectors=None, name=None):
        super().__init__(name)
        if vectors is not None and np.shape(vectors) != (vocab, width):
            raise GraphError(f"Embedding: vectors must have shape {(vocab, width)}, got {np.shape(vectors)}")
        initial = normal(scale) if vectors is None else lambda rng, shape: vectors
        self.vocab, self.width = positive(vocab, "Embedding: vocab"), positive(width, "Embedding: width")
        self.parameters = {"weight": Parameter((vocab, width), initial, sparse=True)}

    def output_widths(self, widths):
        if widths[0] != 1:
            raise GraphError(f"'{self.name}' takes ids of shape {shape(1)} but is fed {shape(widths[0])}")
        return [self.width]

    def check_data(self, columns):
        name = self.inputs[0].node.column
        if name is None:
            return
        ids = columns[name].values
        wrong = np.flatnonzero((ids < 0) | (ids >= self.vocab) | (ids != np.floor(ids)))
        if len(wrong):
            raise DataError(f"column '{name}', row {wrong[0]}: {ids.flat[wrong[0]]:g} is no id of '{self.name}', "
                            f"expected a whole number from 0 to {self.vocab - 1}")

    def fill(self, record, graph):
        weight = self.parameters["weight"]
        record["width"], record["out_width"] = self.vocab, self.width
        record["weight"], record["weight_gradient"] = weight.value.ctypes.data, weight.gradient.ctypes.data
        record["parameter"] = weight.record.ctypes.data
        return []

    def cost(self):
        return self.width


@operation
def forward(worker, node, batch, count):
    """Y[r] = W[ids[r]]; keeps the ids."""
    self = EMBEDDING(node)
    weight, training = matrix(self.weight, self.width, self.out_width), is_training(worker)
    for message in messages(batch, count):
        m = MESSAGE(message)
        ids = values(message)
        if m.cols != 1:
            return blame(worker, message, WRONG_SHAPE)
        for i in ids:
            if not (0 <= i < self.width):
                return blame(worker, message, NO_DATA)
        result = emit(worker, node, 0, message, m.rows, self.out_width)
        gather(weight, ids, payload(result))
        if not training:
            release(worker, message)
        elif not keep(worker, node, message, self.version):
            return blame(worker, message, SAME_STATE)
        send(worker, result)
    return DONE


@operation
def backward(worker, node, batch, count):
    """dW[ids[r]] += dY[r]."""
    self = EMBEDDING(node)
    gradient = matrix(self.weight_gradient, self.width, self.out_width)
    for message in messages(batch, count):
        kept = take(node, message)
        if kept == 0:
            return blame(worker, message, NO_ACTIVATION)
        if MESSAGE(message).cols != self.out_width or MESSAGE(message).rows != MESSAGE(kept).rows:
            return blame(worker, message, WRONG_SHAPE)
        ids = values(kept)
        scatter_add(gradient, ids, payload(message))
        for i in ids:
            mark_touched(self.parameter, int(i))
        note_staleness(node, kept)
        send(worker, answer(worker, node, 0, message, 0, 0))
        release(worker, kept)
        release(worker, message)
    return DONE


Embedding.forward, Embedding.backward = forward, backward
