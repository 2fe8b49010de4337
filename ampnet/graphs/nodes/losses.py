"""Losses turn the direction around: they compare with the data and send the gradient back in the same message."""

import numpy as np

from ...errors import DataError, GraphError
from ...kernels.losses import select_row, softmax_cross_entropy, squared_error
from ...runtime.memory import helper, matrix, record, vector
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
    values,
)
from ...runtime.records import node_dtype
from .node import Node, shape

LOSS_DTYPE = node_dtype("sum", ("unit", np.float64))
LOSS = record(LOSS_DTYPE)


class Loss(Node):
    """Base of losses: `column` of the data holds the targets.

    A message with r rows is compared with all r target rows of its instance, or, with `index`, with the r rows from
    number state[index] on. reduction: the loss of a message is the "mean" over its rows, or their "sum", so that each row
    counts as much as one that comes alone. An evaluation can write down the predictions, a row for every target row.
    """

    dtype = LOSS_DTYPE
    is_loss = True
    metric = None

    def __init__(self, column, index=None, reduction="mean", name=None):
        super().__init__(name)
        if reduction not in ("mean", "sum"):
            raise GraphError(f"{self.kind}: unknown reduction {reduction!r}; known: mean, sum")
        self.column, self.index_field, self.reduction = column, index, reduction

    def output_widths(self, widths):
        return []

    @property
    def prediction_width(self):
        """Columns of a prediction."""
        return self.inputs[0].width

    def fill(self, record, graph):
        record["width"], record["sum"] = self.inputs[0].width, self.reduction == "sum"
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


class SelectRow(Loss):
    """-log softmax over the rows of X (rows, 1) at the row that is the answer: which node of a graph is it?

    The column has one number for an instance, from 0 to rows - 1; the prediction is the number of the first largest row.
    """

    metric = "accuracy"

    def __init__(self, column, name=None):
        super().__init__(column, name=name)

    @property
    def prediction_width(self):
        return 1

    def output_widths(self, widths):
        if widths[0] != 1:
            raise GraphError(f"'{self.name}' takes scores of shape {shape(1)} but is fed {shape(widths[0])}")
        return []

    def check_data(self, columns):
        answers = columns[self.column]
        if answers.width != 1 or (np.diff(answers.offsets) != 1).any():
            raise DataError(f"column '{self.column}' holds answers and must have one row of width 1 for every instance")
        wrong = np.flatnonzero((answers.values[:, 0] < 0) | (answers.values[:, 0] != np.floor(answers.values[:, 0])))
        if len(wrong):
            raise DataError(f"column '{self.column}', row {wrong[0]}: answer {answers.values[wrong[0], 0]:g} is no row "
                            "number, expected a whole number from 0")


class SquaredError(Loss):
    """1/2 sum over columns of (X - target)^2, mean over rows. X and targets (rows, width).

    unit: what a difference of 1 is worth in the unit that the mean absolute error shall be told in.
    """

    metric = "mean absolute error"

    def __init__(self, column, index=None, reduction="mean", unit=1.0, name=None):
        super().__init__(column, index, reduction, name)
        self.unit = float(unit)

    def fill(self, record, graph):
        record["unit"] = self.unit
        return super().fill(record, graph)

    def check_data(self, columns):
        width, got = self.inputs[0].width, columns[self.column].values.shape[1]
        if width != got:
            raise DataError(f"column '{self.column}' has shape {shape(got)} but '{self.name}' compares {shape(width)}")


@helper
def first_target(worker, node, message):
    """Number of the first target row of a message, and how many there are from there on; -1 where they do not fit."""
    rows, field = np.int64(MESSAGE(message).rows), LOSS(node).index_field
    first, found = instance_rows(worker, node, message)
    start = np.int64(MESSAGE(message).state[field]) if field >= 0 else 0
    if start < 0 or start + rows > found or (field < 0 and found != rows) or rows == 0:
        return -1
    return first + start


@helper
def target_rows(worker, node, first, rows, width):
    """The targets from row `first` on as a (rows, width) matrix in scratch memory."""
    words = scratch(worker, 3, (rows * width + 1) // 2 + 1)
    targets = matrix(words.ctypes.data, rows, width)
    for r in range(rows):
        row = column_row(worker, node, first + r)
        for j in range(width):
            targets[r, j] = row[j]
    return targets


@helper
def predict(node, first, rows):
    """Write predictions (rows, width) down, where they are wanted."""
    start = LOSS(node).predictions
    if start != 0:
        out = vector(start + 4 * first * rows.shape[1], rows.size)
        for i in range(rows.size):
            out[i] = rows[i // rows.shape[1], i % rows.shape[1]]


@helper
def turn_around(worker, node, message, loss, rows):
    """Book the loss and send the message back, as a receipt in evaluation."""
    if not np.isfinite(loss):
        return blame(worker, message, NOT_FINITE)
    n = LOSS(node)
    n.loss += loss
    n.targets += rows
    if not is_training(worker):
        empty(message)
    pass_back(worker, node, 0, message)
    return DONE


@operation
def cross_entropy_forward(worker, node, batch, count):
    """dX = (softmax(X) - onehot(label)) / rows, or without the division."""
    n, training = LOSS(node), is_training(worker)
    for message in messages(batch, count):
        rows = np.int64(MESSAGE(message).rows)
        if MESSAGE(message).cols != n.width:
            return blame(worker, message, WRONG_SHAPE)
        first = first_target(worker, node, message)
        if first < 0:
            return blame(worker, message, NO_DATA)
        labels, x = target_rows(worker, node, first, rows, 1), payload(message)
        predict(node, first, x)
        scale = 1.0 if n.sum != 0 else 1.0 / rows
        loss, correct = softmax_cross_entropy(x, vector(labels.ctypes.data, rows), x, scale, training)
        n.correct += correct
        status = turn_around(worker, node, message, loss, rows)
        if status != DONE:
            return status
    return DONE


@operation
def select_forward(worker, node, batch, count):
    """dX = softmax(X over rows) - onehot(answer)."""
    n, training = LOSS(node), is_training(worker)
    for message in messages(batch, count):
        first, found = instance_rows(worker, node, message)
        if MESSAGE(message).cols != 1:
            return blame(worker, message, WRONG_SHAPE)
        answer = int(column_row(worker, node, first)[0]) if found == 1 else -1
        if answer < 0 or answer >= MESSAGE(message).rows:
            return blame(worker, message, NO_DATA)
        x = values(message)
        loss, best = select_row(x, answer, x, training)
        n.correct += best == answer
        if n.predictions != 0:
            vector(n.predictions + 4 * first, 1)[0] = best
        status = turn_around(worker, node, message, loss, 1)
        if status != DONE:
            return status
    return DONE


@operation
def squared_error_forward(worker, node, batch, count):
    """dX = (X - target) / rows, or without the division."""
    n, training = LOSS(node), is_training(worker)
    for message in messages(batch, count):
        rows = np.int64(MESSAGE(message).rows)
        if MESSAGE(message).cols != n.width:
            return blame(worker, message, WRONG_SHAPE)
        first = first_target(worker, node, message)
        if first < 0:
            return blame(worker, message, NO_DATA)
        x = payload(message)
        predict(node, first, x)
        scale = 1.0 if n.sum != 0 else 1.0 / rows
        loss, error = squared_error(x, target_rows(worker, node, first, rows, n.width), x, scale, training)
        n.error += error * n.unit
        status = turn_around(worker, node, message, loss, rows)
        if status != DONE:
            return status
    return DONE


SoftmaxCrossEntropy.forward = cross_entropy_forward
SelectRow.forward = select_forward
SquaredError.forward = squared_error_forward
