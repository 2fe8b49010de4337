"""Y += X W and its gradients for nodes with weights: the rows are multiplied where they lie in messages.

A node has an AFFINE and a PORT record for each input. For the weight gradient, rows of X and D are put aside until a few dozen
are there, or until the update, and are then one product.
"""

import math

from ...kernels.gemm import outer_product, product, transpose
from ...runtime.memory import allocate, helper, layout, matrix, record, vector
from ...runtime.message import DONE, MESSAGE, SAME_STATE, WRONG_SHAPE, answer, operation
from ...runtime.records import node_dtype
from ..parameters import uniform
from .joining import WAITING, meet

HELD_ROWS = 96         # rows put aside for a weight gradient
STRETCH = 48           # so many rows that lie in one piece are multiplied there

AFFINE_DTYPE = layout("weight", "gradient", "transposed", "inputs", "outputs", "held_x", "x_stride", "held_d", "d_stride")
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


def fill_maps(node_record, weights):
    """Lay out an AFFINE record for each weight, (value, gradient) of (inputs, outputs); returns what must be kept alive."""
    maps, alive = allocate(AFFINE_DTYPE, len(weights)), []
    for entry, (value, gradient) in zip(maps, weights, strict=True):
        inputs, outputs = value.shape
        x_stride, d_stride = held_stride(inputs), held_stride(outputs)
        transposed = allocate("f4", inputs * outputs)
        held_x, held_d = allocate("f4", HELD_ROWS * x_stride), allocate("f4", HELD_ROWS * d_stride)
        entry["weight"], entry["gradient"] = value.ctypes.data, gradient.ctypes.data
        entry["transposed"], entry["inputs"], entry["outputs"] = transposed.ctypes.data, inputs, outputs
        entry["held_x"], entry["held_d"] = held_x.ctypes.data, held_d.ctypes.data
        entry["x_stride"], entry["d_stride"] = x_stride, d_stride
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


@helper
def multiply(affine, x_rows, y_rows, rows, accumulate):
    """Y (+)= X W; tables of row addresses."""
    a = AFFINE(affine)
    product(x_rows, matrix(a.weight, a.inputs, a.outputs), y_rows, rows, accumulate)


@helper
def multiply_back(affine, d_rows, dx_rows, rows, accumulate):
    """dX (+)= D W^T."""
    a = AFFINE(affine)
    product(d_rows, matrix(a.transposed, a.outputs, a.inputs), dx_rows, rows, accumulate)


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
def hold(worker, node, x_rows, d_rows, d_shift, d_width, rows):
    """Put rows aside for the weight gradients.

    x_rows: addresses, `rows` of them for each input; d_rows: likewise, those of the next input `d_shift` further on, of blocks
    whose rows have `d_width` elements. Long stretches of rows in one piece are multiplied there and then.
    """
    self = AFFINE_NODE(node)
    at = 0
    while at < rows:
        stretch = rows - at
        for number in range(self.map_count):
            port = PORT(self.ports + PORT_SIZE * number)
            stretch = _in_one_piece(d_rows[number * d_shift + at:], stretch, 4 * d_width)
            stretch = _in_one_piece(x_rows[number * rows + at:], stretch, 4 * port.width)
        if stretch >= STRETCH:
            for number in range(self.map_count):
                a, x, d = AFFINE(self.maps + SIZE * number), x_rows[number * rows + at:], d_rows[number * d_shift + at:]
                width = PORT(self.ports + PORT_SIZE * number).width
                outer_product(x[0], width, d[0], d_width, stretch, matrix(a.gradient, a.inputs, a.outputs))
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
            settle_held(node)


@helper
def settle_held(node):
    """dW += X^T D over the rows put aside, for every map."""
    self = AFFINE_NODE(node)
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        outer_product(a.held_x, a.x_stride, a.held_d, a.d_stride, self.held_rows, matrix(a.gradient, a.inputs, a.outputs))
    self.held_rows = 0


@operation
def settle(worker, node, batch, count):
    """Before an update: compute what was put aside."""
    settle_held(node)
    return DONE


@operation
def refresh(worker, node, batch, count):
    """After an update: renew the transposed copies that backward multiplies by."""
    self = AFFINE_NODE(node)
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        transpose(matrix(a.weight, a.inputs, a.outputs), matrix(a.transposed, a.outputs, a.inputs))
    return DONE
