"""Matrix products for few rows, register-tiled in LLVM vector IR.

A BLAS packs its operands, which costs more than the product when there are 2 to 50 rows. Here a tile of MR rows x NV
vectors of 8 floats stays in registers for the whole inner loop, and nothing is packed until there are many rows.

The rows of a product need not lie in one matrix: every row is given by its *address*, so the payloads of many messages
are multiplied where they lie and the results are written straight into the payloads of the next messages. Two products
cover forward and backward of a linear layer (X: rows x inner, W: inner x outer, D: rows x outer):

    forward     Y  = X @ W          product(x_rows, W, y_rows)
    backward    dX = D @ W.T        product(d_rows, W.T, dx_rows)     W.T is a copy renewed by `transpose`
                dW += X.T @ D       outer_product(X, D, dW)           X and D in one piece: every step of the inner loop
                                                                      needs another row of both, from a page of its own

Widths that are no multiple of 16 are finished by tiles that are cut, so nothing beyond a row is touched.
"""

import numpy as np

from .compile import kernel, kernel_part
from .tiles import outer_tile, prefetch, product_tile, transpose_tile

NEAR_BYTES, NEAR_D_BYTES = 14 << 10, 24 << 10  # shares of a first cache of 32 KiB
NEAR_X_BYTES = 192 << 10   # a share of a second cache of 512 KiB
MOST_STEPS = 320           # so much of the inner dimension is walked at once, which keeps a panel of W in the first cache
FEW_STEPS = 16             # with few rows of X so many rows of W are read side by side: up to 3 of X if W is far, and
ONE_ROW_BYTES = 48 << 10   # 1 from this size of W on
FAR_WEIGHT_BYTES = 384 << 10   # a larger W does not stay in the second cache
PACK_ROWS = 36             # from so many rows on, a panel of a far W is copied together first

_p62, _p62c, _p61c = product_tile(6, 2, False), product_tile(6, 2), product_tile(6, 1)
_p52, _p52c, _p51c = product_tile(5, 2, False), product_tile(5, 2), product_tile(5, 1)
_p42, _p42c, _p41c = product_tile(4, 2, False), product_tile(4, 2), product_tile(4, 1)
_p32, _p32c, _p31c = product_tile(3, 2, False), product_tile(3, 2), product_tile(3, 1)
_p34, _p24, _p22c, _p21c = product_tile(3, 4, False), product_tile(2, 4, False), product_tile(2, 2), product_tile(2, 1)
_p18, _p14, _p12 = product_tile(1, 8, False), product_tile(1, 4, False), product_tile(1, 2, False)
_p12c, _p11c = product_tile(1, 2), product_tile(1, 1)
_o62, _o62c, _o61c = outer_tile(6, 2, False), outer_tile(6, 2), outer_tile(6, 1)
_o52c, _o51c, _o42c, _o41c = outer_tile(5, 2), outer_tile(5, 1), outer_tile(4, 2), outer_tile(4, 1)
_o32c, _o31c, _o22c, _o21c = outer_tile(3, 2), outer_tile(3, 1), outer_tile(2, 2), outer_tile(2, 1)
_o12c, _o11c = outer_tile(1, 2), outer_tile(1, 1)


@kernel
def row_addresses(matrix, table):
    """table[r] = address of row r of a C-contiguous float32 matrix."""
    base, step = matrix.ctypes.data, 4 * matrix.shape[1]
    for r in range(matrix.shape[0]):
        table[r] = base + r * step


@kernel_part
def _cut_tile(x, k, w, stride, y, rows, steps, column, width, accumulate):
    """Columns [column, column + width), width <= 16, of 1 to 6 rows; w is the address of W[k, column]."""
    if width > 8:
        if rows == 6:
            _p62c(x, k, w, stride, y, column, steps, accumulate, width - 8)
        elif rows == 5:
            _p52c(x, k, w, stride, y, column, steps, accumulate, width - 8)
        elif rows == 4:
            _p42c(x, k, w, stride, y, column, steps, accumulate, width - 8)
        elif rows == 3:
            _p32c(x, k, w, stride, y, column, steps, accumulate, width - 8)
        elif rows == 2:
            _p22c(x, k, w, stride, y, column, steps, accumulate, width - 8)
        else:
            _p12c(x, k, w, stride, y, column, steps, accumulate, width - 8)
    elif rows == 6:
        _p61c(x, k, w, stride, y, column, steps, accumulate, width)
    elif rows == 5:
        _p51c(x, k, w, stride, y, column, steps, accumulate, width)
    elif rows == 4:
        _p41c(x, k, w, stride, y, column, steps, accumulate, width)
    elif rows == 3:
        _p31c(x, k, w, stride, y, column, steps, accumulate, width)
    elif rows == 2:
        _p21c(x, k, w, stride, y, column, steps, accumulate, width)
    else:
        _p11c(x, k, w, stride, y, column, steps, accumulate, width)


@kernel_part
def _panel(x, k, w, stride, y, rows, steps, column, width, accumulate):
    """Columns [column, column + width), width <= 16, of 3 or more rows, in tiles as equal as they go; w is W[k, column]."""
    tiles = (rows + 5) // 6
    i = 0
    while tiles > 0:
        count = (rows - i + tiles - 1) // tiles
        xi, yi = x + 8 * i, y + 8 * i
        if width < 16:
            _cut_tile(xi, k, w, stride, yi, count, steps, column, width, accumulate)
        elif count == 6:
            _p62(xi, k, w, stride, yi, column, steps, accumulate, 0)
        elif count == 5:
            _p52(xi, k, w, stride, yi, column, steps, accumulate, 0)
        elif count == 4:
            _p42(xi, k, w, stride, yi, column, steps, accumulate, 0)
        else:
            _p32(xi, k, w, stride, yi, column, steps, accumulate, 0)
        i += count
        tiles -= 1


@kernel_part
def _few_rows(x, k, w, y, rows, steps, outer, accumulate):
    """All columns of 1, 2 or 3 rows; w is the address of W[k, 0]."""
    o = 0
    if rows == 3:
        while o + 32 <= outer:
            _p34(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 32
    elif rows == 2:
        while o + 32 <= outer:
            _p24(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 32
    else:
        while o + 64 <= outer:
            _p18(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 64
        if o + 32 <= outer:
            _p14(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 32
        if o + 16 <= outer:
            _p12(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 16
    while o < outer:
        width = min(16, outer - o)
        _cut_tile(x, k, w + 4 * o, outer, y, rows, steps, o, width, accumulate)
        o += width


@kernel_part
def _copy_panel(w, first, steps, column, width, panel):
    """panel[k] = W[first + k, column:column + width]."""
    for k in range(steps):
        source, target = w[first + k], panel[k]
        if width == 16:
            for j in range(16):
                target[j] = source[column + j]
        else:
            for j in range(width):
                target[j] = source[column + j]


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
    size = 4 * inner * outer
    is_far = size >= FAR_WEIGHT_BYTES
    pack = rows >= PACK_ROWS and is_far
    few = 3 if is_far else 1 if size >= ONE_ROW_BYTES else 0
    longest = FEW_STEPS if rows <= few else MOST_STEPS
    pieces = (inner + longest - 1) // longest
    piece = (inner + pieces - 1) // pieces
    panel = np.empty((piece if pack else 0, 16), np.float32)
    # A far W is read once, for all rows; beside a near one, a few rows of X at a time stay in the first cache.
    most = rows if is_far else max(6, NEAR_BYTES // (4 * piece))
    for k in range(0, inner, piece):
        steps = min(piece, inner - k)
        add = 1 if k > 0 else accumulate
        wk = w0 + 4 * k * outer
        if rows <= 3:
            _few_rows(x, k, wk, y, rows, steps, outer, add)
            continue
        first, chunks = 0, (rows + most - 1) // most
        while chunks > 0:
            count = (rows - first + chunks - 1) // chunks   # equal ones: a tile has 3 rows or more
            for o in range(0, outer, 16):
                width = min(16, outer - o)
                xi, yi = x + 8 * first, y + 8 * first
                if pack:
                    _copy_panel(w, k, steps, o, width, panel)
                    _panel(xi, k, np.int64(panel.ctypes.data), 16, yi, count, steps, o, width, add)
                else:
                    if is_far:   # ask for the next columns now; they are too far apart for the processor to guess
                        for j in range(steps):
                            prefetch(wk + 4 * (o + 16 + j * outer))
                    _panel(xi, k, wk + 4 * o, outer, yi, count, steps, o, width, add)
            first += count
            chunks -= 1


@kernel_part
def _outer_rest(x, x_stride, d, d_stride, g, outer, rows, count, width):
    """Up to 5 rows and 16 columns of G += X.T @ D: what tiles of 6 leave."""
    if width > 8:
        cut = min(8, width - 8)
        if count == 5:
            _o52c(x, x_stride, d, d_stride, g, outer, rows, cut)
        elif count == 4:
            _o42c(x, x_stride, d, d_stride, g, outer, rows, cut)
        elif count == 3:
            _o32c(x, x_stride, d, d_stride, g, outer, rows, cut)
        elif count == 2:
            _o22c(x, x_stride, d, d_stride, g, outer, rows, cut)
        else:
            _o12c(x, x_stride, d, d_stride, g, outer, rows, cut)
    elif count == 5:
        _o51c(x, x_stride, d, d_stride, g, outer, rows, width)
    elif count == 4:
        _o41c(x, x_stride, d, d_stride, g, outer, rows, width)
    elif count == 3:
        _o31c(x, x_stride, d, d_stride, g, outer, rows, width)
    elif count == 2:
        _o21c(x, x_stride, d, d_stride, g, outer, rows, width)
    else:
        _o11c(x, x_stride, d, d_stride, g, outer, rows, width)


@kernel_part
def _outer_panel(x, x_stride, d, d_stride, rows, g, outer, first, last, o, is_far):
    """Rows [first, last) and columns [o, o + 16), as far as there are any, of G += X.T @ D; x, d, g: addresses of the whole."""
    i, d, width = first, d + 4 * o, outer - o
    while i + 6 <= last:
        xi, at = x + 4 * i, g + 4 * (i * outer + o)
        if is_far:
            for r in range(6, 12):
                prefetch(at + 4 * r * outer)
        if width >= 16:
            _o62(xi, x_stride, d, d_stride, at, outer, rows, 0)
        elif width > 8:
            _o62c(xi, x_stride, d, d_stride, at, outer, rows, width - 8)
        else:
            _o61c(xi, x_stride, d, d_stride, at, outer, rows, width)
        i += 6
    if i < last:
        _outer_rest(x + 4 * i, x_stride, d, d_stride, g + 4 * (i * outer + o), outer, rows, last - i, width)


@kernel
def outer_product(x, x_stride, d, d_stride, rows, g):
    """G += X.T @ D.

    x, d: addresses of X (rows, inner) and D (rows, outer) float32, whose rows lie `x_stride` and `d_stride` elements apart;
    g: (inner, outer) float32.
    """
    inner, outer = g.shape
    if rows == 0:
        return
    to = np.int64(g.ctypes.data)
    near = NEAR_D_BYTES // (4 * outer)   # rows of D that stay in the first cache
    is_near, is_far = near >= 24, 4 * inner * outer >= FAR_WEIGHT_BYTES
    most = near if is_near else max(24, NEAR_X_BYTES // (4 * inner))
    pieces = (rows + most - 1) // most   # equal ones: a short one would be mostly loading and storing of G
    count = (rows + pieces - 1) // pieces
    for start in range(0, rows, count):
        n = min(count, rows - start)
        xs, ds = x + 4 * start * x_stride, d + 4 * start * d_stride
        if is_near:
            for first in range(0, inner, 6):
                for o in range(0, outer, 16):
                    _outer_panel(xs, x_stride, ds, d_stride, n, to, outer, first, min(inner, first + 6), o, is_far)
        else:
            for o in range(0, outer, 16):
                _outer_panel(xs, x_stride, ds, d_stride, n, to, outer, 0, inner, o, is_far)


@kernel
def transpose(source, target):
    """target = source.T; source (m, n) and target (n, m), both C-contiguous float32."""
    m, n = source.shape
    whole_m, whole_n = m - m % 8, n - n % 8
    s, t = source.ctypes.data, target.ctypes.data
    for start in range(0, whole_n, 16):   # a cache line of the source, which may be gone when its rows are next visited
        for i in range(0, whole_m, 8):
            for j in range(start, min(start + 16, whole_n), 8):
                transpose_tile(s + 4 * (i * n + j), n, t + 4 * (j * m + i), m)
    for j in range(whole_n, n):
        for r in range(whole_m):
            target[j, r] = source[r, j]
    for r in range(whole_m, m):
        for j in range(n):
            target[j, r] = source[r, j]


@kernel
def matmul(x, w, y, accumulate):
    """Y (+)= X @ W on whole matrices: x (rows, inner), w (inner, outer), y (rows, outer) float32, C-contiguous."""
    tables = np.empty((2, x.shape[0]), np.int64)
    row_addresses(x, tables[0])
    row_addresses(y, tables[1])
    product(tables[0], w, tables[1], x.shape[0], accumulate)


@kernel
def matmul_transposed(x, d, g):
    """G += X.T @ D on whole matrices: x (rows, inner), d (rows, outer), g (inner, outer) float32, C-contiguous."""
    outer_product(x.ctypes.data, x.shape[1], d.ctypes.data, d.shape[1], x.shape[0], g)
