"""Weight gradients and updates of nodes with AFFINE records.

For the weight gradient, rows of X and D are put aside until there is no more room, or until the update, and are then one
product. An update goes through the weights block by block: what is still put aside gives a block's gradient, the optimizer
steps the block, and its transposed copy, where there is one, is renewed, while all of it is in the first caches. So a gradient
need not be written to memory at all unless more rows come between two updates than there is room for.
"""

import math

import numpy as np

from ...kernels import optimizers
from ...kernels.gemm import transpose_block
from ...kernels.outer import D_COLUMNS, ROWS, are_finite, d_length, outer_block, outer_product, put_d, put_x, scale_d, x_length
from ...runtime.atomics import call_operation
from ...runtime.memory import helper, matrix, vector
from ...runtime.message import DONE, NOT_FINITE, operation, scratch
from ...runtime.records import ENGINE, OPTIMIZER, PARAMETER, WORKER
from ...runtime.update import NOT_MINE, step_elements
from .affine import AFFINE, AFFINE_NODE, FRESH, SIZE, STALE

FEW_ROWS = 32   # of so few rows SGD adds the products to the weights themselves
BLOCK_ROWS, BLOCK_COLUMNS = 24, 768   # most of what is updated together: whole tiles, whole rows if they are not longer


@helper
def hold(worker, node, x_rows, d_rows, d_shift, rows):
    """Put rows aside for the weight gradients.

    x_rows: addresses, `rows` of them for each input; d_rows: likewise, those of the next input `d_shift` further on.
    """
    self = AFFINE_NODE(node)
    at = 0
    while at < rows:
        if self.held_rows == ROWS:
            call_operation(self.settle, worker, node, 0, 0)
        count = min(rows - at, ROWS - self.held_rows)
        for number in range(self.map_count):
            a = AFFINE(self.maps + SIZE * number)
            put_x(x_rows[number * rows + at:], count, a.inputs, a.held_x, self.held_rows)
            if number == 0 or a.held_d != AFFINE(self.maps).held_d:
                put_d(d_rows[number * d_shift + at:], count, a.outputs, a.held_d, self.held_rows)
        self.held_rows += count
        at += count


@operation
def settle(worker, node, batch, count):
    """dW += X^T D over the rows put aside, for every map."""
    self = AFFINE_NODE(node)
    if self.held_rows == 0:
        return DONE
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        outer_product(a.held_x, a.held_d, self.held_rows, matrix(a.gradient, a.inputs, a.outputs))
        a.has_gradient = 1
    self.held_rows = 0
    return DONE


@helper
def _copy_block(affine, first, last, left, right):
    """Renew the transposed copy of W[first:last, left:right], if it is of use."""
    a = AFFINE(affine)
    if a.is_used != 0:
        transpose_block(a.weight + 4 * (first * a.outputs + left), a.outputs, a.transposed + 4 * (left * a.inputs + first),
                        a.inputs, last - first, right - left)


@helper
def _update_block(worker, parameter, affine, rows, first, last, left, right):
    """Gradient and step of W[first:last, left:right]; `rows` are put aside. NOT_FINITE before any step."""
    a, p = AFFINE(affine), PARAMETER(parameter)
    height, width, start = last - first, right - left, first * a.outputs + left
    weight, stride = a.weight + 4 * start, a.outputs
    gradient = a.gradient + 4 * start
    if a.has_gradient == 0:   # memory of its own, which stays in the first cache
        stride = width
        gradient = np.int64(scratch(worker, 7, BLOCK_ROWS * BLOCK_COLUMNS // 2).ctypes.data)
        if rows == 0:
            vector(gradient, height * width)[:] = 0
    if rows > 0:
        outer_block(a.held_x, a.held_d, rows, first, last, left, right, gradient, stride, a.has_gradient, weight, a.outputs)
    is_whole = width == a.outputs
    pieces, size = (1, height * width) if is_whole else (height, width)
    for i in range(pieces):
        if not math.isfinite(optimizers.squared_norm(vector(gradient + 4 * i * stride, size))):
            return NOT_FINITE
    for i in range(pieces):
        step_elements(worker, parameter, (weight - p.value) // 4 + i * a.outputs, gradient + 4 * i * stride, size)
    return DONE


@helper
def _descent(worker, affine, rows):
    """D of the rows put aside, times minus the step, in other memory: its address."""
    w, a = WORKER(worker), AFFINE(affine)
    size = d_length(a.outputs)
    scaled = np.int64(scratch(worker, 6, size // 2).ctypes.data)
    scale_d(vector(a.held_d, size), rows, np.float32(-w.step_rate * w.step_scale), vector(scaled, size))
    return scaled


@operation
def renew(worker, node, parameter, rows):
    """Update a parameter with what is put aside, if it is one of the weights.

    Plain SGD on few rows has no gradient that could be looked at: the rows are, and the weights now and then.
    """
    self, p = AFFINE_NODE(node), PARAMETER(parameter)
    o = OPTIMIZER(ENGINE(WORKER(worker).engine).optimizer)
    is_plain = o.code == optimizers.SGD and o.decay == 0 and 0 < rows <= FEW_ROWS
    found = NOT_MINE
    for number in range(self.map_count):
        affine = self.maps + SIZE * number
        a = AFFINE(affine)
        if a.weight < p.value or a.weight >= p.value + 4 * p.rows * p.cols:
            continue
        found, scaled = DONE, 0
        if is_plain and a.has_gradient == 0:
            if not are_finite(vector(a.held_x, x_length(a.inputs)), vector(a.held_d, d_length(a.outputs)), rows):
                return NOT_FINITE
            scaled = _descent(worker, affine, rows)
        parts = (a.outputs + BLOCK_COLUMNS - 1) // BLOCK_COLUMNS
        columns = a.outputs if parts == 1 else ((a.outputs + parts - 1) // parts + D_COLUMNS - 1) // D_COLUMNS * D_COLUMNS
        for first in range(0, a.inputs, BLOCK_ROWS):
            for left in range(0, a.outputs, columns):
                last, right = min(first + BLOCK_ROWS, a.inputs), min(left + columns, a.outputs)
                if scaled != 0:
                    weight = a.weight + 4 * (first * a.outputs + left)
                    outer_block(a.held_x, scaled, rows, first, last, left, right, weight, a.outputs, 1, weight, a.outputs)
                else:
                    status = _update_block(worker, parameter, affine, rows, first, last, left, right)
                    if status != DONE:
                        return status
                _copy_block(affine, first, last, left, right)
        a.has_gradient = 0
        a.panels_age, a.transposed_age = STALE, FRESH if a.is_used != 0 else STALE
        a.is_used = 0
    return found


@operation
def refresh(worker, node, batch, count):
    """Before a run: weights may have changed."""
    self = AFFINE_NODE(node)
    for number in range(self.map_count):
        a = AFFINE(self.maps + SIZE * number)
        a.panels_age = a.transposed_age = STALE
    return DONE
