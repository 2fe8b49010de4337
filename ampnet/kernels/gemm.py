"""Matrix products for few rows, register-tiled in LLVM vector IR.

A BLAS packs its operands, which costs more than the product when there are 2 to 50 rows. Here a tile of MR rows x NV
vectors of LANES floats stays in registers for the whole inner loop, and nothing is packed until there are many rows.

The rows of a product need not lie in one matrix: every row is given by its *address*, so the payloads of many messages
are multiplied where they lie and the results are written straight into the payloads of the next messages. Forward and
backward of a linear layer are products (X: rows x inner, W: inner x outer, D: rows x outer):

    forward     Y  = X @ W          product(x_rows, W, y_rows)
    backward    dX = D @ W.T        product(d_rows, W.T, dx_rows)     W.T is a copy that is renewed after updates, or
                                    product_turned(d_rows, W, dx_rows)   for many rows and a W that is far
                dW += X.T @ D       see outer.py

Widths that are no multiple of COLUMNS are finished by tiles that are cut, so nothing beyond a row is touched.
"""

import numpy as np

from .compile import kernel, kernel_part
from .tiles import COLUMNS, LANES, LINES, copy_elements, prefetch, product_tile, transpose_tile

NEAR_BYTES = 14 << 10      # a share of a first cache of 32 KiB
MOST_STEPS = 320           # so much of the inner dimension is walked at once, which keeps a panel of W in the first cache
FEW_STEPS = 16             # with few rows of X so many rows of W are read side by side: up to 3 of X if W is far, and
ONE_ROW_BYTES = 48 << 10   # 1 from this size of W on
FAR_WEIGHT_BYTES = 384 << 10   # from this size on W is far
PACK_ROWS = 36             # from so many rows on, a panel of a far W is copied together first
PACK_AHEAD = 16            # rows whose line is asked for ahead of copying

_p62, _p62c, _p61c = product_tile(6, 2, False), product_tile(6, 2), product_tile(6, 1)
_p52, _p52c, _p51c = product_tile(5, 2, False), product_tile(5, 2), product_tile(5, 1)
_p42, _p42c, _p41c = product_tile(4, 2, False), product_tile(4, 2), product_tile(4, 1)
_p32, _p32c, _p31c = product_tile(3, 2, False), product_tile(3, 2), product_tile(3, 1)
_p34, _p24, _p22c, _p21c = product_tile(3, 4, False), product_tile(2, 4, False), product_tile(2, 2), product_tile(2, 1)
_p18, _p14, _p12 = product_tile(1, 8, False), product_tile(1, 4, False), product_tile(1, 2, False)
_p12c, _p11c = product_tile(1, 2), product_tile(1, 1)
copy1, _copy_columns = copy_elements(1), copy_elements(COLUMNS)


@kernel_part
def is_far(inner, outer):
    """Whether a matrix of that shape is too large to stay in the second cache."""
    return 4 * inner * outer >= FAR_WEIGHT_BYTES


@kernel
def row_addresses(matrix, table):
    """table[r] = address of row r of a C-contiguous float32 matrix."""
    base, step = matrix.ctypes.data, 4 * matrix.shape[1]
    for r in range(matrix.shape[0]):
        table[r] = base + r * step


@kernel_part
def _cut_tile(x, k, w, stride, y, rows, steps, column, width, accumulate):
    """Columns [column, column + width), width <= COLUMNS, of 1 to 6 rows; w is the address of W[k, column]."""
    if width > LANES:
        if rows == 6:
            _p62c(x, k, w, stride, y, column, steps, accumulate, width - LANES)
        elif rows == 5:
            _p52c(x, k, w, stride, y, column, steps, accumulate, width - LANES)
        elif rows == 4:
            _p42c(x, k, w, stride, y, column, steps, accumulate, width - LANES)
        elif rows == 3:
            _p32c(x, k, w, stride, y, column, steps, accumulate, width - LANES)
        elif rows == 2:
            _p22c(x, k, w, stride, y, column, steps, accumulate, width - LANES)
        else:
            _p12c(x, k, w, stride, y, column, steps, accumulate, width - LANES)
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
def _tile(x, k, w, stride, y, rows, steps, column, width, accumulate):
    """Columns [column, column + width), width <= COLUMNS, of 3 to 6 rows; w is the address of W[k, column]."""
    if width < COLUMNS:
        _cut_tile(x, k, w, stride, y, rows, steps, column, width, accumulate)
    elif rows == 6:
        _p62(x, k, w, stride, y, column, steps, accumulate, 0)
    elif rows == 5:
        _p52(x, k, w, stride, y, column, steps, accumulate, 0)
    elif rows == 4:
        _p42(x, k, w, stride, y, column, steps, accumulate, 0)
    else:
        _p32(x, k, w, stride, y, column, steps, accumulate, 0)


@kernel_part
def _panel(x, k, w, stride, y, rows, steps, column, width, accumulate):
    """The same of 3 or more rows, in tiles as equal as they go."""
    tiles = (rows + 5) // 6
    i = 0
    while tiles > 0:
        count = (rows - i + tiles - 1) // tiles
        _tile(x + 8 * i, k, w, stride, y + 8 * i, count, steps, column, width, accumulate)
        i += count
        tiles -= 1


@kernel_part
def _few_rows(x, k, w, y, rows, steps, outer, accumulate):
    """All columns of 1, 2 or 3 rows; w is the address of W[k, 0]."""
    o = 0
    if rows == 3:
        while o + 2 * COLUMNS <= outer:
            _p34(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 2 * COLUMNS
    elif rows == 2:
        while o + 2 * COLUMNS <= outer:
            _p24(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 2 * COLUMNS
    else:
        while o + 4 * COLUMNS <= outer:
            _p18(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 4 * COLUMNS
        if o + 2 * COLUMNS <= outer:
            _p14(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += 2 * COLUMNS
        if o + COLUMNS <= outer:
            _p12(x, k, w + 4 * o, outer, y, o, steps, accumulate, 0)
            o += COLUMNS
    while o < outer:
        width = min(COLUMNS, outer - o)
        _cut_tile(x, k, w + 4 * o, outer, y, rows, steps, o, width, accumulate)
        o += width


@kernel_part
def _copy_panel(w, stride, steps, width, panel):
    """panel[k] = W[k, :width] for k < steps, COLUMNS elements apart; w is the address of its first element."""
    for k in range(steps):
        source, target = w + 4 * k * stride, panel + 4 * COLUMNS * k
        if width == COLUMNS:
            for line in range(LINES):
                prefetch(source + 4 * PACK_AHEAD * stride + 64 * line)
            _copy_columns(source, target)
        else:
            for j in range(width):
                copy1(source + 4 * j, target + 4 * j)


@kernel_part
def _packed(x, w, y, rows, inner, outer, turned, accumulate):
    """Y (+)= X @ W, or X @ W.T if `turned`, with a panel of W copied together for all rows, 3 or more.

    While a panel is multiplied, the lines of the next one are asked for, a few with every tile: a processor does not guess
    them, as they lie a row apart.
    """
    pieces = (inner + MOST_STEPS - 1) // MOST_STEPS
    piece = (inner + pieces - 1) // pieces
    space = np.empty(COLUMNS * piece + 16, np.float32)
    panel = (np.int64(space.ctypes.data) + 63) // 64 * 64
    for k in range(0, inner, piece):
        steps = min(piece, inner - k)
        add = 1 if k > 0 else accumulate
        for o in range(0, outer, COLUMNS):
            width = min(COLUMNS, outer - o)
            if turned != 0:
                transpose_block(w + 4 * (o * inner + k), inner, panel, COLUMNS, width, steps)
            else:
                _copy_panel(w + 4 * (k * outer + o), outer, steps, width, panel)
            tiles = (rows + 5) // 6
            i, asked = 0, 0
            while tiles > 0:
                count = (rows - i + tiles - 1) // tiles
                upto = LINES * steps * (i + count) // rows
                while asked < upto:
                    if turned != 0:
                        prefetch(w + 4 * ((o + COLUMNS + asked % COLUMNS) * inner + k) + 64 * (asked // COLUMNS))
                    else:
                        prefetch(w + 4 * ((k + asked // LINES) * outer + o + COLUMNS) + 64 * (asked % LINES))
                    asked += 1
                _tile(x + 8 * i, k, panel, COLUMNS, y + 8 * i, count, steps, o, width, add)
                i += count
                tiles -= 1


@kernel
def product_turned(x_rows, w, y_rows, rows, accumulate):
    """Y (+)= X @ W.T for at least PACK_ROWS rows and a far W, (outer, inner); what `product` with a copy of W.T gives."""
    outer, inner = w.shape
    x, y, w0 = np.int64(x_rows.ctypes.data), np.int64(y_rows.ctypes.data), np.int64(w.ctypes.data)
    _packed(x, w0, y, rows, inner, outer, 1, accumulate)


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
    far = is_far(inner, outer)
    if far and rows >= PACK_ROWS:
        _packed(x, w0, y, rows, inner, outer, 0, accumulate)
        return
    few = 3 if far else 1 if size >= ONE_ROW_BYTES else 0
    longest = FEW_STEPS if rows <= few else MOST_STEPS
    pieces = (inner + longest - 1) // longest
    piece = (inner + pieces - 1) // pieces
    # A far W is read once, for all rows; beside a near one, a few rows of X at a time stay in the first cache.
    most = rows if far else max(6, NEAR_BYTES // (4 * piece))
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
            for o in range(0, outer, COLUMNS):
                width = min(COLUMNS, outer - o)
                xi, yi = x + 8 * first, y + 8 * first
                if far:   # ask for the next columns now; they are too far apart for the processor to guess
                    for j in range(steps):
                        for line in range(LINES):
                            prefetch(wk + 4 * (o + COLUMNS + j * outer) + 64 * line)
                _panel(xi, k, wk + 4 * o, outer, yi, count, steps, o, width, add)
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
