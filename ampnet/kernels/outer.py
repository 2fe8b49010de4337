"""Weight gradients, G (+)= X^T D, over rows that were put aside in panels.

X lies in panels of X_COLUMNS columns and D in panels of D_COLUMNS, each with room for ROWS rows one after the other, so that
all a tile of G needs is one stretch of either. Where they were, every step of its inner loop would need two more rows, from
pages of their own.
"""

import numpy as np

from .compile import kernel, kernel_part
from .gemm import row_addresses
from .rows import copy_row, is_finite_row
from .tiles import D_COLUMNS, LANES, LINES, SHORT, X_COLUMNS, copy_elements, outer_tile, prefetch

ROWS = 128
# Elements from a panel to the next: an odd number of cache lines, or a row's pieces would share few sets of the first cache.
X_PANEL, D_PANEL = X_COLUMNS * ROWS + 16, D_COLUMNS * ROWS + 16

UP_TO_6 = (1, 2, 3, 4, 5, 6)
_half, _one = outer_tile(UP_TO_6, 1, cut=True, short=True), outer_tile(UP_TO_6, 1, cut=True)
_one_and_half, _two = outer_tile(UP_TO_6, 2, cut=True, short=True), outer_tile(UP_TO_6, 2, cut=True)
_whole_two = outer_tile(UP_TO_6, 2)
_copy_x, _copy_d = copy_elements(X_COLUMNS), copy_elements(D_COLUMNS)


def x_size(width):
    """Elements that panels of so many columns of X take."""
    return -(-width // X_COLUMNS) * X_PANEL


def d_size(width):
    return -(-width // D_COLUMNS) * D_PANEL


x_length, d_length = kernel_part(x_size), kernel_part(d_size)   # the same for compiled code

@kernel_part
def _put(rows, count, width, panels, at, columns, size):
    for r in range(count):
        source, target, j = rows[r], panels + 4 * columns * (at + r), 0
        while j + columns <= width:
            if columns == X_COLUMNS:
                _copy_x(source + 4 * j, target)
            else:
                _copy_d(source + 4 * j, target)
            j += columns
            target += 4 * size
        if j < width:
            copy_row(source + 4 * j, target, width - j)


@kernel
def put_x(rows, count, width, panels, at):
    """Put `count` rows of X, given by their addresses, into the panels as rows `at` and following."""
    _put(rows, count, width, panels, at, X_COLUMNS, X_PANEL)


@kernel
def put_d(rows, count, width, panels, at):
    """The same for rows of D."""
    _put(rows, count, width, panels, at, D_COLUMNS, D_PANEL)


@kernel_part
def _are_finite(panels, rows, columns, size):
    start, is_finite = np.int64(panels.ctypes.data), 1
    for at in range(0, len(panels), size):
        is_finite &= is_finite_row(start + 4 * at, rows * columns)
    return is_finite != 0


@kernel
def are_finite(x, d, rows):
    """Whether the first `rows` rows of panels are; x, d: all their elements, `x_size` and `d_size` of them."""
    return _are_finite(x, rows, X_COLUMNS, X_PANEL) and _are_finite(d, rows, D_COLUMNS, D_PANEL)


@kernel
def scale_d(d, rows, factor, out):
    """The first `rows` rows of panels of D times a factor, in other panels."""
    for at in range(0, len(d), D_PANEL):
        source, target = d[at:at + rows * D_COLUMNS], out[at:at + rows * D_COLUMNS]
        for j in range(len(source)):
            target[j] = factor * source[j]


@kernel_part
def _tile(rows, x, d, g, stride, steps, add, width):
    """Up to X_COLUMNS rows and D_COLUMNS columns of G; x, d: addresses of its panels."""
    if width == D_COLUMNS:
        _whole_two(rows, x, d, g, stride, steps, add, 0)
    elif width > LANES + SHORT:
        _two(rows, x, d, g, stride, steps, add, width - LANES)
    elif width > LANES:
        _one_and_half(rows, x, d, g, stride, steps, add, width - LANES)
    elif width > SHORT:
        _one(rows, x, d, g, stride, steps, add, width)
    else:
        _half(rows, x, d, g, stride, steps, add, width)


@kernel
def outer_block(x, d, rows, first, last, left, right, g, stride, add, ahead, ahead_stride):
    """G[first:last, left:right] = X^T D over the first `rows` rows of the panels at x and d, or += where `add` is 1.

    first, left: multiples of X_COLUMNS and D_COLUMNS; g: address of G[first, left], its rows `stride` elements apart; ahead,
    ahead_stride: the same of a matrix whose lines are asked for at the places of the tiles.
    """
    for o in range(left, right, D_COLUMNS):
        width = min(D_COLUMNS, right - o)
        for i in range(first, last, X_COLUMNS):
            count = min(X_COLUMNS, last - i)
            for r in range(count):
                for line in range(LINES):
                    prefetch(ahead + 4 * ((i - first + r) * ahead_stride + o - left) + 64 * line)
            _tile(count, x + 4 * X_PANEL * (i // X_COLUMNS), d + 4 * D_PANEL * (o // D_COLUMNS),
                  g + 4 * ((i - first) * stride + o - left), stride, rows, add, width)


@kernel
def outer_product(x, d, rows, g):
    """G += X^T D, whole; g: (inner, outer) float32, C-contiguous."""
    inner, outer = g.shape
    if rows > 0:
        to = np.int64(g.ctypes.data)
        outer_block(x, d, rows, 0, inner, 0, outer, to, outer, 1, to + 4 * X_COLUMNS * outer, outer)


@kernel
def matmul_transposed(x, d, g):
    """G += X.T @ D on whole matrices: x (rows, inner), d (rows, outer), g (inner, outer) float32, C-contiguous."""
    rows, (inner, outer) = x.shape[0], g.shape
    x_panels = np.zeros(x_length(inner), np.float32)
    d_panels = np.zeros(d_length(outer), np.float32)
    tables, xs, ds = np.empty((2, rows), np.int64), np.int64(x_panels.ctypes.data), np.int64(d_panels.ctypes.data)
    row_addresses(x, tables[0])
    row_addresses(d, tables[1])
    for start in range(0, rows, ROWS):
        count = min(ROWS, rows - start)
        put_x(tables[0, start:], count, inner, xs, 0)
        put_d(tables[1, start:], count, outer, ds, 0)
        outer_product(xs, ds, count, g)
