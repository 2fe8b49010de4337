"""Y += X W and its gradients for nodes with weights: the rows are multiplied where they lie in messages.

A node has an AFFINE and a PORT record for each input. For the weight gradient, rows of X and D are put aside until a few dozen
are there, or until the update, and are then one product.
"""

import math

import numpy as np

from ...kernels.gemm import outer_product, product, transpose
from ...runtime.atomics import call_operation
from ...runtime.memory import allocate, helper, integers, layout, matrix, record, vector
from ...runtime.message import DONE, MESSAGE, SAME_STATE, WRONG_SHAPE, answer, operation
from ...runtime.records import node_dtype
from ..parameters import uniform
from .joining import WAITING, meet

HELD_ROWS = 96         # rows put aside for a weight gradient
STRETCH = 48           # so many rows that lie in one piece are multiplied there

AFFINE_DTYPE = layout(
    "weight", "gradient", "transposed", "inputs", "outputs",
    "x_width", "d_width",    # columns of the blocks in which rows of X and D lie
    "held_x", "x_stride", "held_d", "d_stride",
    "product", "product_back", "outer")   # operations: nodes call them by address, so that they are compiled once, not in each
AFFINE = record(AFFINE_DTYPE)
SIZE = AFFINE_DTYPE.itemsize


PORT_DTYPE = layout("width", "start", "wanted")   # of an input: payload columns; bytes into a row of D; whether dX is wanted
PORT = record(PORT_DTYPE)
PORT_SIZE = PORT_DTYPE.itemsize


def affine_node(*fields):
    """The record of a node with `maps` and `ports`, a record an input one after the other, and further fields."""
    return node_dtype("maps", "ports", "map_count", *fields)


AFFINE_NODE = record(affine_node())


def glorot(inputs, outputs):
    """Initial values even in +-sqrt(6 / (inputs + outputs))."""
    return uniform(math.sqrt(6 / (inputs + outputs)))


def held_stride(width):
    """Elements between rows put aside: an odd number of cache lines, so that a column's lines do not share few cache sets."""
    return 16 * (-(-width // 16) | 1)


def fill_ports(node_record, node, widths, starts):
    """Lay out a PORT record an input; returns what must be kept alive."""
    carriers, ports = node.graph.carriers(), allocate(PORT_DTYPE, len(widths))
    for entry, width, start, source in zip(ports, widths, starts, node.inputs, strict=True):
        entry["width"], entry["start"], entry["wanted"] = width, start, source.node in carriers
    node_record["ports"] = ports.ctypes.data
    return [ports]


def fill_maps(node_record, weights, x_widths, d_width):
    """Lay out an AFFINE record for each weight, (value, gradient) of (inputs, outputs); returns what must be kept alive.

    x_widths: columns of each input's payload; d_width: columns of the blocks in which the gradients of products lie.
    """
    maps, alive = allocate(AFFINE_DTYPE, len(weights)), []
    for entry, (value, gradient), x_width in zip(maps, weights, x_widths, strict=True):
        inputs, outputs = value.shape
        x_stride, d_stride = held_stride(inputs), held_stride(outputs)
        transposed = allocate("f4", inputs * outputs)
        held_x, held_d = allocate("f4", HELD_ROWS * x_stride), allocate("f4", HELD_ROWS * d_stride)
        entry["weight"], entry["gradient"] = value.ctypes.data, gradient.ctypes.data
        entry["transposed"], entry["inputs"], entry["outputs"] = transposed.ctypes.data, inputs, outputs
        entry["held_x"], entry["held_d"] = held_x.ctypes.data, held_d.ctypes.data
        entry["x_stride"], entry["d_stride"], entry["x_width"], entry["d_width"] = x_stride, d_stride, x_width, d_width
        for name, compiled in zip(("product", "product_back", "outer"), HELPERS, strict=True):
            entry[name] = compiled.address
        alive += [transposed, held_x, held_d]
    node_record["maps"], node_record["map_count"] = maps.ctypes.data, len(maps)
    return [maps, *alive]


@helper
def join_inputs(worker, node, message):
    """(status, X, second X): DONE with all inputs of the message's state, twice the only one of a node with one input; WAITING
    while one is missing; or what is wrong."""
    self, m = AFFINE_NODE(node), MESSAGE(message)
    if m.cols != PORT(self.ports + PORT_SIZE * m.port).width:
        return WRONG_SHAPE, message, message
    if self.map_count == 1:
        return DONE, message, message
    other = meet(worker, node, message)
    if other <= 0:
        return WAITING if other == 0 else SAME_STATE, message, message
    if MESSAGE(other).rows != m.rows:
        return WRONG_SHAPE, message, message
    if m.port == 0:
        return DONE, message, other
    return DONE, other, message


@operation
def product_of(affine, x_rows, y_rows, count):
    """Y (+)= X W; tables of row addresses; count: twice the rows, and 1 more to add to Y."""
    a, rows = AFFINE(affine), count >> 1
    product(integers(x_rows, rows), matrix(a.weight, a.inputs, a.outputs), integers(y_rows, rows), rows, count & 1)
    return DONE


@operation
def product_back_of(affine, d_rows, dx_rows, count):
    """dX (+)= D W^T, likewise."""
    a, rows = AFFINE(affine), count >> 1
    product(integers(d_rows, rows), matrix(a.transposed, a.outputs, a.inputs), integers(dx_rows, rows), rows, count & 1)
    return DONE


@operation
def outer_of(affine, x, d, rows):
    """dW += X^T D over rows that lie in one block each, from the addresses x and d on."""
    a = AFFINE(affine)
    outer_product(x, a.x_width, d, a.d_width, rows, matrix(a.gradient, a.inputs, a.outputs))
    return DONE


HELPERS = (product_of, product_back_of, outer_of)


@helper
def multiply(affine, x_rows, y_rows, rows, accumulate):
    """Y (+)= X W; tables of row addresses."""
    call_operation(AFFINE(affine).product, affine, np.int64(x_rows.ctypes.data), np.int64(y_rows.ctypes.data),
                   2 * rows + accumulate)


@helper
def multiply_back(affine, d_rows, dx_rows, rows, accumulate):
    """dX (+)= D W^T."""
    call_operation(AFFINE(affine).product_back, affine, np.int64(d_rows.ctypes.data), np.int64(dx_rows.ctypes.data),
                   2 * rows + accumulate)


@helper
def answer_port(worker, node, number, message, rows):
    """The gradient for an input, not filled yet; a receipt where it is not wanted."""
    port = PORT(AFFINE_NODE(node).ports + PORT_SIZE * number)
    return answer(worker, node, number, message, rows if port.wanted else 0, port.width if port.wanted else 0)


@helper
def add_bias_gradient(d, gradient):
    """db += sum over rows of D's first columns, as many as there are biases."""
    for r in range(d.shape[0]):
        row = d[r]
        for j in range(len(gradient)):
            gradient[j] += row[j]


@helper
def _in_one_piece(rows, count, step):
    """How many of the rows at the addresses `rows`, from the first one on, lie `step` bytes apart: those of one block.

    Blocks lie further apart, so results do not depend on where memory happened to be.
    """
    n = min(1, count)
    while n < count and rows[n] - rows[n - 1] == step:
        n += 1
    return n


@helper
def _copy_rows(rows, count, width, target, stride):
    for i in range(count):
        source, copy = vector(rows[i], width), vector(target + 4 * stride * i, width)
        for j in range(width):
            copy[j] = source[j]


@helper
def hold(worker, node, x_rows, d_rows, d_shift, rows):
    """Put rows aside for the weight gradients.

    x_rows: addresses, `rows` of them for each input; d_rows: likewise, those of the next input `d_shift` further on. Long
    stretches of rows in one piece are multiplied there and then.
    """
    self = AFFINE_NODE(node)
    at = 0
    while at < rows:
        stretch = rows - at
        for number in range(self.map_count):
            a = AFFINE(self.maps + SIZE * number)
            stretch = _in_one_piece(d_rows[number * d_shift + at:], stretch, 4 * a.d_width)
            stretch = _in_one_piece(x_rows[number * rows + at:], stretch, 4 * a.x_width)
        if stretch >= STRETCH:
            for number in range(self.map_count):
                affine = self.maps + SIZE * number
                x, d = x_rows[number * rows + at], d_rows[number * d_shift + at]
                call_operation(AFFINE(affine).outer, affine, x, d, stretch)
            at += stretch
            continue
        count = min(rows - at, STRETCH, HELD_ROWS - self.held_rows)
        for number in range(self.map_count):
            a, x, d = AFFINE(self.maps + SIZE * number), x_rows[number * rows + at:], d_rows[number * d_shift + at:]
            _copy_rows(x, count, a.inputs, a.held_x + 4 * a.x_stride * self.held_rows, a.x_stride)
            _copy_rows(d, count, a.outputs, a.held_d + 4 * a.d_stride * self.held_rows, a.d_stride)
        self.held_rows += count
        at += count
        if self.held_rows == HELD_ROWS:
            call_operation(self.settle, worker, node, 0, 0)


@operation
def settle(worker, node, batch, count):
    """Before an update, or when as many rows are put aside as there is room for: dW += X^T D over them, for every map."""
    self = AFFINE_NODE(node)
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        outer_product(a.held_x, a.x_stride, a.held_d, a.d_stride, self.held_rows, matrix(a.gradient, a.inputs, a.outputs))
    self.held_rows = 0
    return DONE


@operation
def refresh(worker, node, batch, count):
    """After an update: renew the transposed copies that backward multiplies by."""
    self = AFFINE_NODE(node)
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        transpose(matrix(a.weight, a.inputs, a.outputs), matrix(a.transposed, a.outputs, a.inputs))
    return DONE
