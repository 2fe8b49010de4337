"""Losses turn the direction around: they compare with the data and send the gradient back in the same message."""

import numpy as np

from ...errors import DataError
from ...kernels.losses import softmax_cross_entropy, squared_error
from ...runtime.memory import helper, matrix, vector
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_DATA,
    NOT_FINITE,
    WRONG_SHAPE,
    blame,
    column_row,
    empty,
    instance_rows,
    is_training,
    messages,
    operation,
    pass_back,
    payload,
    scratch,
)
from ...runtime.records import NODE
from .node import Node, shape


class Loss(Node):
    """Base of losses: `column` of the data holds the targets.

    A message with r rows is compared with all r target rows of its instance, or, with `index`, with the r rows from
    number state[index] on. The loss of a message is the mean over its rows.
    """

    is_loss = True
    keeps_blocks = False
    metric = None

    def __init__(self, column, index=None, name=None):
        super().__init__(name)
        self.column, self.index_field = column, index

    def output_widths(self, widths):
        return []

    def fill(self, record, graph):
        record["width"] = self.inputs[0].width
        return []

    def cost(self):
        return 10 * self.inputs[0].width


class SoftmaxCrossEntropy(Loss):
    """-log softmax(X)[label], mean over rows. X (rows, classes); labels (rows, 1), whole numbers in [0, classes)."""

    metric = "accuracy"

    def check_data(self, columns):
        labels, classes = columns[self.column], self.inputs[0].width
        if labels.values.shape[1] != 1:
            raise DataError(f"column '{self.column}' holds labels and must have width 1, got {labels.values.shape[1]}")
        wrong = np.flatnonzero((labels.values < 0) | (labels.values >= classes) | (labels.values != np.floor(labels.values)))
        if len(wrong):
            raise DataError(f"column '{self.column}', row {wrong[0]}: label {labels.values.flat[wrong[0]]:g} is out of "
                            f"range, expected a whole number from 0 to {classes - 1}")


class SquaredError(Loss):
    """1/2 sum over columns of (X - target)^2, mean over rows. X and targets (rows, width)."""

    metric = "mean absolute error"

    def check_data(self, columns):
        width, got = self.inputs[0].width, columns[self.column].values.shape[1]
        if width != got:
            raise DataError(f"column '{self.column}' has shape {shape(got)} but '{self.name}' compares {shape(width)}")


@helper
def target_rows(worker, node, message, width):
    """The targets of a message as a (rows, width) matrix in scratch memory; zero rows when the data has others."""
    rows, field = np.int64(MESSAGE(message).rows), NODE(node).index_field
    first, found = instance_rows(worker, node, message)
    start = np.int64(MESSAGE(message).state[field]) if field >= 0 else 0
    if start < 0 or start + rows > found or (field < 0 and found != rows):
        return matrix(message, 0, width)
    first += start
    words = scratch(worker, 3, (rows * width + 1) // 2 + 1)
    targets = matrix(words.ctypes.data, rows, width)
    for r in range(rows):
        row = column_row(worker, node, first + r)
        for j in range(width):
            targets[r, j] = row[j]
    return targets


@helper
def turn_around(worker, node, message, loss, rows):
    """Book the loss and send the message back, as a receipt in evaluation."""
    if not np.isfinite(loss):
        return blame(worker, message, NOT_FINITE)
    n = NODE(node)
    n.loss += loss
    n.targets += rows
    if not is_training(worker):
        empty(message)
    pass_back(worker, node, 0, message)
    return DONE


@operation
def cross_entropy_forward(worker, node, batch, count):
    """dX = (softmax(X) - onehot(label)) / rows."""
    n, training = NODE(node), is_training(worker)
    for message in messages(batch, count):
        rows = np.int64(MESSAGE(message).rows)
        if MESSAGE(message).cols != n.width:
            return blame(worker, message, WRONG_SHAPE)
        labels = target_rows(worker, node, message, 1)
        if labels.shape[0] != rows or rows == 0:
            return blame(worker, message, NO_DATA)
        x = payload(message)
        loss, correct = softmax_cross_entropy(x, vector(labels.ctypes.data, rows), x, 1.0 / rows, training)
        n.correct += correct
        status = turn_around(worker, node, message, loss, rows)
        if status != DONE:
            return status
    return DONE


@operation
def squared_error_forward(worker, node, batch, count):
    """dX = (X - target) / rows."""
    n, training = NODE(node), is_training(worker)
    for message in messages(batch, count):
        rows = np.int64(MESSAGE(message).rows)
        if MESSAGE(message).cols != n.width:
            return blame(worker, message, WRONG_SHAPE)
        targets = target_rows(worker, node, message, n.width)
        if targets.shape[0] != rows or rows == 0:
            return blame(worker, message, NO_DATA)
        x = payload(message)
        loss, error = squared_error(x, targets, x, 1.0 / rows, training)
        n.error += error
        status = turn_around(worker, node, message, loss, rows)
        if status != DONE:
            return status
    return DONE


SoftmaxCrossEntropy.forward = cross_entropy_forward
SquaredError.forward = squared_error_forward
