"""Where messages start and end: sources send an instance's data when the controller starts it, and take the answers.

Made by `Graph.rows`, `Graph.matrix` and `Graph.zeros`. Of a graph with replicas they have an output for each lane.
"""

import numpy as np

from ...errors import DataError
from ...runtime.controller import expect_answers, got_answer, lane_of
from ...runtime.message import (
    DONE,
    MESSAGE,
    column_row,
    emit,
    instance_rows,
    messages,
    operation,
    payload,
    release,
    send,
    values,
)
from ...runtime.records import NODE
from .node import Node, positive, shape


class Source(Node):
    """Base of sources: no inputs, one output of a known width."""

    is_source = immediate = roaming = True

    def __init__(self, width, column=None, index=None, count=None, name=None):
        super().__init__(name)
        self.width = positive(width, f"{self.kind}: width")
        self.column, self.index_field, self.count_field = column, index, count

    def check_data(self, columns):
        if self.column is None:
            return
        got = columns[self.column].values.shape[1]
        if got != self.width:
            raise DataError(f"column '{self.column}' has shape {shape(got)} but '{self.name}' sends {shape(self.width)}")
        lengths = np.diff(columns[self.column].offsets)
        if (lengths == 0).any():
            raise DataError(f"column '{self.column}', instance {int(np.argmin(lengths))}: it has no rows, expected at "
                            "least 1")

    def fill(self, record, graph):
        record["width"] = self.width
        return []


class Rows(Source):
    """One message a row of a column; the state field `index` numbers them."""


class Matrix(Source):
    """One message with all rows of an instance's column."""


class Zeros(Source):
    """One message of a single row of zeros; without payload where all its readers know what that means."""

    def fill(self, record, graph):
        record["width"] = 0 if all(node.takes_empty for node in self.readers()) else self.width
        return []


@operation
def rows_forward(worker, node, batch, count):
    """A message a row."""
    n = NODE(node)
    for start in messages(batch, count):
        first, found = instance_rows(worker, node, start)
        expect_answers(worker, start, found)
        port = lane_of(worker, start)
        for r in range(found):
            message = emit(worker, node, port, start, 1, n.width)
            x, row = values(message), column_row(worker, node, first + r)
            for j in range(len(x)):
                x[j] = row[j]
            if n.index_field >= 0:
                MESSAGE(message).state[n.index_field] = r
            send(worker, message)
    return DONE


@operation
def matrix_forward(worker, node, batch, count):
    """All rows in one message."""
    for start in messages(batch, count):
        first, found = instance_rows(worker, node, start)
        expect_answers(worker, start, 1)
        message = emit(worker, node, lane_of(worker, start), start, found, NODE(node).width)
        x = payload(message)
        for r in range(found):
            row = column_row(worker, node, first + r)
            for j in range(x.shape[1]):
                x[r, j] = row[j]
        send(worker, message)
    return DONE


@operation
def zeros_forward(worker, node, batch, count):
    """A row of zeros."""
    for start in messages(batch, count):
        expect_answers(worker, start, 1)
        message = emit(worker, node, lane_of(worker, start), start, 1, NODE(node).width)
        x = values(message)
        for j in range(len(x)):
            x[j] = 0
        send(worker, message)
    return DONE


@operation
def come_home(worker, node, batch, count):
    """An answer came: the gradient ends here."""
    for message in messages(batch, count):
        got_answer(worker, message)
        release(worker, message)
    return DONE


Source.backward = come_home
Rows.forward, Matrix.forward, Zeros.forward = rows_forward, matrix_forward, zeros_forward
