"""Matrix products for few rows, register-tiled in LLVM vector IR.

A BLAS packs its operands, which costs more than the product when there are 2 to 50 rows. Here a tile of MR rows x NV
vectors of LANES floats stays in registers for the whole inner loop, and nothing is packed if W is near.

The rows of a product need not lie in one matrix: every row is given by its *address*, so the payloads of many messages
are multiplied where they lie and the results are written straight into the payloads of the next messages. Forward and
backward of a linear layer are products (X: rows x inner, W: inner x outer, D: rows x outer):

    forward     Y  = X @ W          product(x_rows, W, y_rows)
    backward    dX = D @ W.T        product(d_rows, W.T, dx_rows), W.T a copy, for a narrow W; else see dots.py
                dW += X.T @ D       see outer.py

Weights that do not stay in the second cache are multiplied from copies in panels, see panels.py.

Widths that are no multiple of COLUMNS are finished by tiles that are cut, so nothing beyond a row is touched.
"""

import numpy as np

from .compile import kernel, kernel_part
from .tiles import COLUMNS, LANES, LINES, SHORT, copy_elements, prefetch, product_tile, transpose_tile

NEAR_BYTES = 14 << 10      # a share of a first cache of 32 KiB
MOST_STEPS = 320           # so much of the inner dimension is walked at once, which keeps X in the first cache
FEW = 3                    # so few rows of X have tiles of their own, as wide as registers allow;
FEW_STEPS = 16             # then so many rows of W are read side by side if W is far, and for one row of X
ONE_ROW_BYTES = 48 << 10   # from this size of W on
FAR_WEIGHT_BYTES = 384 << 10   # from this size on W is far
# The last columns of a near W: a tile of 3 rows or more may have a short vector besides, if there are registers for it.
WIDEST = COLUMNS + SHORT if LANES == 16 else COLUMNS

UP_TO_6, UP_TO_3 = (1, 2, 3, 4, 5, 6), (1, 2, 3)
_half, _one = product_tile(UP_TO_6, 1, cut=True, short=True), product_tile(UP_TO_6, 1, cut=True)
_one_and_half, _two = product_tile(UP_TO_6, 2, cut=True, short=True), product_tile(UP_TO_6, 2, cut=True)
_whole_two, _two_and_half = product_tile(UP_TO_6, 2), product_tile((3, 4, 5, 6), 3, cut=True, short=True)
_four, _eight = product_tile(UP_TO_3, 4), product_tile((1,), 8)
copy1 = copy_elements(1)


@kernel_part
def is_far(inner, outer):
    """Whether a matrix of that shape is too large to stay in the second cache."""
    return 4 * inner * outer >= FAR_WEIGHT_BYTES


@kernel_part
def piece_of(inner, longest):
    """Steps of pieces of the inner dimension, equal ones but for the last."""
    pieces = (inner + longest - 1) // longest
    return (inner + pieces - 1) // pieces


@kernel
def row_addresses(matrix, table):
    """table[r] = address of row r of a C-contiguous float32 matrix."""
    base, step = matrix.ctypes.data, 4 * matrix.shape[1]
    for r in range(matrix.shape[0]):
        table[r] = base + r * step


@kernel_part
def _tile(rows, x, k, w, stride, y, column, steps, accumulate, width):
    """Columns [column, column + width) of 1 to 6 rows; w is the address of W[k, column].

    width: up to COLUMNS, of 3 rows or more up to WIDEST.
    """
    if width > COLUMNS:
        _two_and_half(rows, x, k, w, stride, y, column, steps, accumulate, width - COLUMNS)
    elif width == COLUMNS:
        _whole_two(rows, x, k, w, stride, y, column, steps, accumulate, 0)
    elif width > LANES + SHORT:
        _two(rows, x, k, w, stride, y, column, steps, accumulate, width - LANES)
    elif width > LANES:
        _one_and_half(rows, x, k, w, stride, y, column, steps, accumulate, width - LANES)
    elif width > SHORT:
        _one(rows, x, k, w, stride, y, column, steps, accumulate, width)
    else:
        _half(rows, x, k, w, stride, y, column, steps, accumulate, width)


@kernel_part
def many_rows(x, k, w, stride, y, rows, steps, column, width, accumulate, ahead, ahead_stride, lines):
    """Columns [column, column + width), width <= WIDEST, of 3 rows or more, in tiles as equal as they go.

    w: address of W[k, column]. With every tile some cache lines are asked for that will be needed next, `lines` in all:
    LINES side by side from address `ahead` on, as many `ahead_stride` elements further on, and so forth.
    """
    tiles = (rows + 5) // 6
    i, asked, line = 0, 0, 0
    while tiles > 0:
        count = (rows - i + tiles - 1) // tiles
        upto = lines * (i + count) // rows
        while asked < upto:
            prefetch(ahead + 64 * line)
            asked += 1
            line += 1
            if line == LINES:
                line = 0
                ahead += 4 * ahead_stride
        _tile(count, x + 8 * i, k, w, stride, y + 8 * i, column, steps, accumulate, width)
        i += count
        tiles -= 1


@kernel_part
def few_rows(x, k, w, stride, apart, y, rows, steps, outer, accumulate):
    """All columns of 1, 2 or 3 rows.

    w: address of W[k, 0]; stride, apart: elements of W from a row to the next, and from COLUMNS columns to the next COLUMNS.
    """
    o = 0
    if rows == 1:
        while o + 4 * COLUMNS <= outer:
            _eight(rows, x, k, w, stride, y, o, steps, accumulate, apart)
            o += 4 * COLUMNS
            w += 16 * apart
    while o + 2 * COLUMNS <= outer:
        _four(rows, x, k, w, stride, y, o, steps, accumulate, apart)
        o += 2 * COLUMNS
        w += 8 * apart
    while o < outer:
        width = min(COLUMNS, outer - o)
        _tile(rows, x, k, w, stride, y, o, steps, accumulate, width)
        o += width
        w += 4 * apart


@kernel
def product(x_rows, w, y_rows, rows, accumulate):
    """Y (+)= X @ W.

    x_rows, y_rows: (rows,) int64 addresses of float32 rows of `inner` and `outer` elements; w: (inner, outer) float32;
    accumulate: add to Y (1) or overwrite it (0).
    """
    inner, outer = w.shape
    x, y, w0 = np.int64(x_rows.ctypes.data), np.int64(y_rows.ctypes.data), np.int64(w.ctypes.data)
    if inner == 0 or outer == 0 or rows == 0:
        return
    few = FEW if is_far(inner, outer) else 1 if 4 * inner * outer >= ONE_ROW_BYTES else 0
    piece = piece_of(inner, FEW_STEPS if rows <= few else MOST_STEPS)
    most = max(6, NEAR_BYTES // (4 * piece))   # so many rows of X stay in the first cache
    for k in range(0, inner, piece):
        steps = min(piece, inner - k)
        add = 1 if k > 0 else accumulate
        wk = w0 + 4 * k * outer
        if rows <= FEW:
            few_rows(x, k, wk, outer, COLUMNS, y, rows, steps, outer, add)
            continue
        first, chunks = 0, (rows + most - 1) // most
        while chunks > 0:
            count = (rows - first + chunks - 1) // chunks   # equal ones: a tile has 3 rows or more
            o = 0
            while o < outer:
                width = outer - o if outer - o <= WIDEST else COLUMNS
                many_rows(x + 8 * first, k, wk + 4 * o, outer, y + 8 * first, count, steps, o, width, add, 0, 0, 0)
                o += width
            first += count
            chunks -= 1


@kernel
def transpose_block(source, source_stride, target, target_stride, rows, cols):
    """target[:cols, :rows] = source[:rows, :cols].T; addresses of float32 matrices, and elements from a row to the next."""
    whole_rows, whole_cols = rows - rows % 8, cols - cols % 8
    for start in range(0, whole_cols, 16):   # a cache line of the source, which may be gone when its rows are next visited
        for i in range(0, whole_rows, 8):
            for j in range(start, min(start + 16, whole_cols), 8):
                transpose_tile(source + 4 * (i * source_stride + j), source_stride,
                               target + 4 * (j * target_stride + i), target_stride)
    for r in range(rows):
        j = whole_cols if r < whole_rows else 0
        while j < cols:
            copy1(source + 4 * (r * source_stride + j), target + 4 * (j * target_stride + r))
            j += 1


@kernel
def transpose(source, target):
    """target = source.T; source (m, n) and target (n, m), both C-contiguous float32."""
    m, n = source.shape
    transpose_block(source.ctypes.data, n, target.ctypes.data, m, m, n)


@kernel
def matmul(x, w, y, accumulate):
    """Y (+)= X @ W on whole matrices: x (rows, inner), w (inner, outer), y (rows, outer) float32, C-contiguous."""
    tables = np.empty((2, x.shape[0]), np.int64)
    row_addresses(x, tables[0])
    row_addresses(y, tables[1])
    product(tables[0], w, tables[1], x.shape[0], accumulate)
