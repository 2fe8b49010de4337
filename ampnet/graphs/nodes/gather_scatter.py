"""Gather and ScatterAdd: rows of a whole-graph matrix moved along an instance's index columns."""

import numpy as np

from ...errors import DataError, GraphError
from ...kernels.gather_scatter import add_rows, pick_rows
from ...runtime.atomics import load
from ...runtime.memory import LINE, allocate, helper, record, vector
from ...runtime.message import (
    DONE,
    MESSAGE,
    NO_DATA,
    SAME_STATE,
    WRONG_SHAPE,
    answer,
    blame,
    emit,
    empty,
    instance_rows_of,
    messages,
    operation,
    payload,
    release,
    release_chain,
    scratch,
    send,
    values,
)
from ...runtime.records import COLUMN, ENGINE, WORKER, node_dtype
from .joining import gather_part
from .node import Node, shape

INDEX_DTYPE = node_dtype("index_columns", "sizes", "parts", "size_column")
INDEX = record(INDEX_DTYPE)


class Indexed(Node):
    """What Gather and ScatterAdd share: index columns, and the column whose row count is that of the large side."""

    dtype = INDEX_DTYPE

    def __init__(self, columns, sizes, size_of, name=None):
        super().__init__(name)
        self.index_columns, self.sizes, self.size_of = tuple(columns), tuple(sizes), size_of

    @property
    def read_columns(self):
        return (*self.index_columns, *self.sizes, self.size_of)

    def fill(self, record, graph):
        parts = len(self.index_columns)
        numbers = allocate("i8", 2 * parts)
        numbers[:] = [graph.columns.index(name) for name in (*self.index_columns, *self.sizes)]
        record["index_columns"], record["sizes"] = numbers.ctypes.data, numbers[parts:].ctypes.data
        record["parts"], record["size_column"] = parts, graph.columns.index(self.size_of)
        record["width"] = self.inputs[0].width
        return [numbers]

    def check_index(self, columns, name, place, bounds, what):
        """Raise DataError unless every number in `columns[name]` at `place` is a whole number below its instance's bound."""
        column = columns[name]
        numbers = column.integers()[:, place]
        limits = np.repeat(bounds, np.diff(column.offsets))
        wrong = np.flatnonzero((numbers < 0) | (numbers >= limits))
        if len(wrong):
            row = int(wrong[0])
            instance = int(np.searchsorted(column.offsets, row, side="right")) - 1
            raise DataError(f"column '{name}', instance {instance}, row {row - int(column.offsets[instance])}: {numbers[row]} "
                            f"is no {what}, expected 0 to {limits[row] - 1}")

    def cost(self):
        return sum(port.width for port in self.inputs)


class Gather(Indexed):
    """Y[i] = X[index[i]] for the rows of an instance's column `index` (width 1); X has as many rows as column `size_of`.

    An index column without rows gives a Y without rows.
    """

    transparent = True

    def __init__(self, index, size_of, name=None):
        super().__init__([index], [index], size_of, name)

    def output_widths(self, widths):
        return widths

    def check_data(self, columns):
        name, = self.index_columns
        if columns[name].width != 1:
            raise DataError(f"column '{name}' holds row numbers and must have width 1, got {columns[name].width}")
        self.check_index(columns, name, 0, np.diff(columns[self.size_of].offsets), f"row of '{self.size_of}'")


class ScatterAdd(Indexed):
    """Y[t] = sum over inputs k and rows (s, t) of an instance's column k of X_k[s]; Y has as many rows as column `size_of`.

    pairs: a column (width 2) of source row and target row for each input. Duplicates add up; rows of Y that nothing points
    to are zero. sizes: for each input the column that has as many rows as it, to check the source rows by.
    """

    def __init__(self, pairs, sizes, size_of, name=None):
        super().__init__(pairs, sizes, size_of, name)
        if len(self.sizes) != len(self.index_columns):
            raise GraphError(f"ScatterAdd: {len(self.index_columns)} columns of pairs but {len(self.sizes)} of sizes")
        self.input_count = len(self.index_columns)

    def output_widths(self, widths):
        for width in widths:
            if width != widths[0]:
                raise GraphError(f"'{self.name}' adds inputs of one shape but is fed {shape(widths[0])} and {shape(width)}")
        return widths[:1]

    def check_data(self, columns):
        targets = np.diff(columns[self.size_of].offsets)
        for name, size in zip(self.index_columns, self.sizes, strict=True):
            if columns[name].width != 2:
                raise DataError(f"column '{name}' holds pairs of row numbers and must have width 2, got {columns[name].width}")
            self.check_index(columns, name, 0, np.diff(columns[size].offsets), f"row of '{size}'")
            self.check_index(columns, name, 1, targets, f"row of '{self.size_of}'")


@helper
def index_of(worker, node, number, place, message, table):
    """Row numbers of a message's instance, from place `place` of the rows of index column `number`, in a scratch table."""
    column = load(INDEX(node).index_columns + 8 * number)
    first, count = instance_rows_of(worker, column, message)
    rows = scratch(worker, table, count + 1)[:count]
    engine = ENGINE(WORKER(worker).engine)
    data = COLUMN(engine.columns + LINE * column)
    values, width, order = data.values, data.width, engine.row_index   # once: else again after every number that is written
    for i in range(count):
        row = first + i if order == 0 else load(order + 8 * (first + i))
        rows[i] = int(vector(values + 4 * row * width, width)[place])
    return rows


@helper
def large_rows(worker, node, message):
    """Rows of the large side."""
    return instance_rows_of(worker, INDEX(node).size_column, message)[1]


@helper
def zeroed(message):
    """The payload, all zero."""
    y = values(message)
    for i in range(len(y)):
        y[i] = 0
    return payload(message)


@operation
def gather_forward(worker, node, batch, count):
    """Y[i] = X[index[i]]."""
    for message in messages(batch, count):
        m = MESSAGE(message)
        if m.cols != INDEX(node).width:
            return blame(worker, message, WRONG_SHAPE)
        if m.rows != large_rows(worker, node, message):
            return blame(worker, message, NO_DATA)
        index = index_of(worker, node, 0, 0, message, 0)
        result = emit(worker, node, 0, message, len(index), m.cols)
        pick_rows(payload(message), index, payload(result))
        release(worker, message)
        send(worker, result)
    return DONE


@operation
def gather_backward(worker, node, batch, count):
    """dX[index[i]] += dY[i]."""
    for message in messages(batch, count):
        m = MESSAGE(message)
        if INDEX(node).input_gradient == 0:
            send(worker, answer(worker, node, 0, message, 0, 0))
            release(worker, message)
            continue
        index = index_of(worker, node, 0, 0, message, 0)
        if m.cols != INDEX(node).width or m.rows != len(index):
            return blame(worker, message, WRONG_SHAPE)
        result = answer(worker, node, 0, message, large_rows(worker, node, message), m.cols)
        every = scratch(worker, 1, len(index) + 1)[:len(index)]
        for i in range(len(every)):
            every[i] = i
        add_rows(payload(message), every, index, zeroed(result))
        release(worker, message)
        send(worker, result)
    return DONE


@operation
def scatter_forward(worker, node, batch, count):
    """Wait for all inputs, then Y[t] += X_k[s], input by input."""
    self = INDEX(node)
    for message in messages(batch, count):
        m = MESSAGE(message)
        if m.cols != self.width:
            return blame(worker, message, WRONG_SHAPE)
        if m.rows != instance_rows_of(worker, load(self.sizes + 8 * m.port), message)[1]:
            return blame(worker, message, NO_DATA)
        chain = gather_part(worker, node, message, self.parts)
        if chain < 0:
            return blame(worker, message, SAME_STATE)
        if chain == 0:
            continue
        result = emit(worker, node, 0, message, large_rows(worker, node, message), self.width)
        total = zeroed(result)
        for port in range(self.parts):
            part = chain
            while MESSAGE(part).port != port:
                part = MESSAGE(part).next
            source = index_of(worker, node, port, 0, part, 0)
            target = index_of(worker, node, port, 1, part, 1)
            add_rows(payload(part), source, target, total)
        release_chain(worker, chain)
        send(worker, result)
    return DONE


@operation
def scatter_backward(worker, node, batch, count):
    """dX_k[s] += dY[t]; receipts are answered by receipts."""
    self = INDEX(node)
    for message in messages(batch, count):
        m = MESSAGE(message)
        if self.input_gradient == 0:
            empty(message)
        for port in range(self.parts):
            if m.cols == 0:
                send(worker, answer(worker, node, port, message, 0, 0))
                continue
            if m.cols != self.width or m.rows != large_rows(worker, node, message):
                return blame(worker, message, WRONG_SHAPE)
            rows = instance_rows_of(worker, load(self.sizes + 8 * port), message)[1]
            result = answer(worker, node, port, message, rows, m.cols)
            source = index_of(worker, node, port, 0, message, 0)
            target = index_of(worker, node, port, 1, message, 1)
            add_rows(payload(message), target, source, zeroed(result))
            send(worker, result)
        release(worker, message)
    return DONE


Gather.forward, Gather.backward = gather_forward, gather_backward
ScatterAdd.forward, ScatterAdd.backward = scatter_forward, scatter_backward
