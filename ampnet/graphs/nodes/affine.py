"""Y += X W and its gradients for nodes with weights: the rows are multiplied where they lie in messages.

A node has an AFFINE and a PORT record for each input. How weight gradients and updates are made is in held.py.
"""

import math

import numpy as np

from ...kernels.dots import is_straight, is_straight_for, product_turned
from ...kernels.gemm import FEW, is_far, product, transpose
from ...kernels.outer import d_size, x_size
from ...kernels.panels import PACK_ROWS, pack, panels_size, product_packing, product_panels
from ...runtime.atomics import call_operation
from ...runtime.memory import allocate, helper, integers, layout, matrix, record, vector
from ...runtime.message import DONE, MESSAGE, SAME_STATE, WRONG_SHAPE, answer, operation
from ...runtime.records import node_dtype
from ...runtime.table import keep
from ..parameters import uniform
from .joining import WAITING, meet

AFFINE_DTYPE = layout(
    "weight", "gradient", "inputs", "outputs",
    "panels", "transposed",   # copies of the weights, in panels if they are far, transposed if D W^T needs that
    "held_x", "held_d",    # rows put aside for the weight gradient, in panels
    "has_gradient",        # whether `gradient` may be other than 0
    "panels_age", "transposed_age",   # of either copy: FRESH, STALE or, of panels, ASKED_FOR
    "is_used",             # whether the transposed copy was of use since the last update
    "product", "product_back")   # operations: nodes call them by address, so that they are compiled once, not in each
AFFINE = record(AFFINE_DTYPE)
# How old a copy is: as the weights; older; older, and a call with many rows did without it: at the next one it is renewed.
FRESH, STALE, ASKED_FOR = range(3)
SIZE = AFFINE_DTYPE.itemsize


PORT_DTYPE = layout(          # of an input
    "width",                  # payload columns,
    "takes_empty",            # or none
    "start", "wanted")        # bytes into a row of D; whether dX is wanted
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
        entry["takes_empty"] = node.takes_empty
    node_record["ports"] = ports.ctypes.data
    return [ports]


def fill_maps(node_record, weights, starts):
    """Lay out an AFFINE record for each weight, (value, gradient) of (inputs, outputs); returns what must be kept alive.

    starts: first column in a row of D for each; two weights with the same rows of D share what is put aside of them.
    """
    maps, alive = allocate(AFFINE_DTYPE, len(weights)), []
    for entry, (value, gradient), start in zip(maps, weights, starts, strict=True):
        inputs, outputs = value.shape
        panels = allocate("f4", panels_size(inputs, outputs) if is_far.py_func(inputs, outputs) else 0)
        transposed = allocate("f4", 0 if is_straight.py_func(inputs, outputs) else inputs * outputs)
        held_x = allocate("f4", x_size(inputs))
        if not alive or start != starts[0]:
            held_d = allocate("f4", d_size(outputs))
        entry["weight"], entry["gradient"] = value.ctypes.data, gradient.ctypes.data
        entry["inputs"], entry["outputs"] = inputs, outputs
        entry["panels"], entry["transposed"] = panels.ctypes.data, transposed.ctypes.data
        entry["held_x"], entry["held_d"] = held_x.ctypes.data, held_d.ctypes.data
        entry["has_gradient"], entry["panels_age"], entry["transposed_age"] = 1, STALE, STALE
        for name, compiled in zip(("product", "product_back"), HELPERS, strict=True):
            entry[name] = compiled.address
        alive += [panels, transposed, held_x, held_d]
    node_record["maps"], node_record["map_count"] = maps.ctypes.data, len(maps)
    return [maps, *alive]


@helper
def join_inputs(worker, node, message, training):
    """(status, X, second X): DONE with all inputs of the message's state, twice the only one of a node with one input; WAITING
    while one is missing; or what is wrong. In training the first one is kept for backward."""
    self, m = AFFINE_NODE(node), MESSAGE(message)
    port = PORT(self.ports + PORT_SIZE * m.port)
    if m.cols != port.width and (m.cols != 0 or port.takes_empty == 0):
        return WRONG_SHAPE, message, message
    if self.map_count == 1:
        is_new = not training or keep(worker, node, message, self.version)
        return DONE if is_new else SAME_STATE, message, message
    other = meet(node, message, training)
    if other <= 0:
        return WAITING if other == 0 else SAME_STATE, message, message
    if MESSAGE(other).rows != m.rows:
        return WRONG_SHAPE, message, message
    if m.port == 0:
        return DONE, message, other
    return DONE, other, message


panels_length = helper(panels_size)   # the same for compiled code


@operation
def product_of(affine, x_rows, y_rows, count):
    """Y (+)= X W; tables of row addresses; count: twice the rows, and 1 more to add to Y."""
    a, rows = AFFINE(affine), count >> 1
    x, y, w = integers(x_rows, rows), integers(y_rows, rows), matrix(a.weight, a.inputs, a.outputs)
    if rows <= FEW or not is_far(a.inputs, a.outputs):
        product(x, w, y, rows, count & 1)
    elif a.panels_age == STALE and rows >= PACK_ROWS:
        product_packing(x, w, y, rows, count & 1)
        a.panels_age = ASKED_FOR
    else:
        panels = vector(a.panels, panels_length(a.inputs, a.outputs))
        if a.panels_age != FRESH:
            pack(w, panels)
            a.panels_age = FRESH
        product_panels(x, panels, a.inputs, a.outputs, y, rows, count & 1)
    return DONE


@operation
def product_back_of(affine, d_rows, dx_rows, count):
    """dX (+)= D W^T, likewise."""
    a, rows = AFFINE(affine), count >> 1
    d, dx, w = integers(d_rows, rows), integers(dx_rows, rows), matrix(a.weight, a.inputs, a.outputs)
    if is_straight_for(rows, a.inputs, a.outputs):
        product_turned(d, w, dx, rows, count & 1)
        return DONE
    turned = matrix(a.transposed, a.outputs, a.inputs)
    if a.transposed_age != FRESH:
        transpose(w, turned)
        a.transposed_age = FRESH
    a.is_used = 1
    product(d, turned, dx, rows, count & 1)
    return DONE


HELPERS = (product_of, product_back_of)


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
