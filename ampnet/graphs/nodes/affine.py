"""Y += X W and its gradients for nodes with weights: the rows are multiplied where they lie in messages.

A node has an AFFINE and a PORT record for each input. Weight gradients wait until a few dozen rows are there, or until the
update, and are then one product; until then the node holds on to the blocks that the rows lie in.
"""

import math

from ...kernels.gemm import outer_product, product, transpose
from ...runtime.atomics import store
from ...runtime.memory import allocate, helper, integers, layout, matrix, record
from ...runtime.message import DONE, MESSAGE, answer, operation, release_chain
from ...runtime.records import node_dtype
from ..parameters import uniform

HELD_ROWS = 48        # weight gradients are computed for at least so many rows at a time
HELD_LIMIT = 1 << 12  # capacity of the tables of held rows; a larger call is computed at once

AFFINE_DTYPE = layout("weight", "gradient", "transposed", "inputs", "outputs", "held_x", "held_d")
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
        transposed, tables = allocate("f4", inputs * outputs), allocate("i8", 2 * HELD_LIMIT)
        entry["weight"], entry["gradient"] = value.ctypes.data, gradient.ctypes.data
        entry["transposed"], entry["inputs"], entry["outputs"] = transposed.ctypes.data, inputs, outputs
        entry["held_x"], entry["held_d"] = tables.ctypes.data, tables[HELD_LIMIT:].ctypes.data
        alive += [transposed, tables]
    node_record["maps"], node_record["map_count"] = maps.ctypes.data, len(maps)
    return [maps, *alive]


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
def make_room(worker, node, rows):
    """Before `rows` more rows are held: settle what would not fit beside them."""
    if AFFINE_NODE(node).held_rows + rows > HELD_LIMIT:
        settle_held(worker, node)


@helper
def hold_rows(node, number, x_rows, d_rows, rows):
    """Put rows aside for the weight gradient of a map; more rows than fit are multiplied at once."""
    affine = AFFINE_NODE(node).maps + SIZE * number
    a = AFFINE(affine)
    if rows > HELD_LIMIT:
        outer_product(x_rows, d_rows, rows, matrix(a.gradient, a.inputs, a.outputs))
        return
    at = 8 * AFFINE_NODE(node).held_rows
    for i in range(rows):
        store(a.held_x + at + 8 * i, x_rows[i])
        store(a.held_d + at + 8 * i, d_rows[i])


@helper
def hold_blocks(worker, node, chain, last, rows):
    """Keep the blocks (first to last, linked) of rows that `hold_rows` has put aside in every map, until they are used."""
    self = AFFINE_NODE(node)
    if rows == 0 or rows > HELD_LIMIT:
        release_chain(worker, chain)
        return
    MESSAGE(last).next = self.held
    self.held = chain
    self.held_rows += rows
    if self.held_rows >= HELD_ROWS:
        settle_held(worker, node)


@helper
def settle_held(worker, node):
    """dW += X^T D over the rows held, for every map."""
    self = AFFINE_NODE(node)
    rows = self.held_rows
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        outer_product(integers(a.held_x, rows), integers(a.held_d, rows), rows, matrix(a.gradient, a.inputs, a.outputs))
    release_chain(worker, self.held)
    self.held = 0
    self.held_rows = 0


@operation
def settle(worker, node, batch, count):
    """Before an update: compute what was held back."""
    settle_held(worker, node)
    return DONE


@operation
def refresh(worker, node, batch, count):
    """After an update: renew the transposed copies that backward multiplies by."""
    self = AFFINE_NODE(node)
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        transpose(matrix(a.weight, a.inputs, a.outputs), matrix(a.transposed, a.outputs, a.inputs))
    return DONE
