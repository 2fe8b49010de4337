"""Products with weights that do not stay in the second cache.

Columns of such a W are walked a row of W, thousands of bytes, at a time: into another page with every step, which no processor
fetches ahead. So they are multiplied from a copy in panels of COLUMNS columns, each in one piece, one panel after the other. It
is kept from one update of W to the next (`pack`, `product_panels`), or made panel by panel for one call of many
rows (`product_packing`). Either way a product has the bits of `gemm.product`.
"""

import numpy as np

from .compile import kernel, kernel_part
from .gemm import FEW, MOST_STEPS, copy1, few_rows, many_rows, piece_of
from .tiles import COLUMNS, LINES, copy_elements, prefetch

PACK_ROWS = 36    # from so many rows on a copy for a single call pays
PACK_AHEAD = 16   # rows whose lines are asked for ahead of copying

_copy_columns = copy_elements(COLUMNS)


def panels_size(inner, outer):
    """Elements that the panels of an inner x outer matrix take."""
    return -(-outer // COLUMNS) * COLUMNS * inner


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


@kernel
def pack(w, panels):
    """Copy W, (inner, outer) float32, into panels, (`panels_size`,) float32."""
    inner, outer = w.shape
    source, target = np.int64(w.ctypes.data), np.int64(panels.ctypes.data)
    for o in range(0, outer, COLUMNS):
        _copy_panel(source + 4 * o, outer, inner, min(COLUMNS, outer - o), target + 4 * o * inner)


@kernel
def product_panels(x_rows, panels, inner, outer, y_rows, rows, accumulate):
    """Y (+)= X @ W for the panels of W, (inner, outer); else as `gemm.product`."""
    x, y, w = np.int64(x_rows.ctypes.data), np.int64(y_rows.ctypes.data), np.int64(panels.ctypes.data)
    piece = piece_of(inner, MOST_STEPS)
    for k in range(0, inner, piece):
        steps = min(piece, inner - k)
        add = 1 if k > 0 else accumulate
        wk = w + 4 * COLUMNS * k
        if rows <= FEW:
            few_rows(x, k, wk, COLUMNS, COLUMNS * inner, y, rows, steps, outer, add)
            continue
        for o in range(0, outer, COLUMNS):
            many_rows(x, k, wk + 4 * o * inner, COLUMNS, y, rows, steps, o, min(COLUMNS, outer - o), add, 0, 0, 0)


@kernel
def product_packing(x_rows, w, y_rows, rows, accumulate):
    """Y (+)= X @ W for W (inner, outer), 3 rows or more.

    While a panel is multiplied, the lines of the next one are asked for.
    """
    inner, outer = w.shape
    x, y, w0 = np.int64(x_rows.ctypes.data), np.int64(y_rows.ctypes.data), np.int64(w.ctypes.data)
    piece = piece_of(inner, MOST_STEPS)
    space = np.empty(COLUMNS * piece + 16, np.float32)
    panel = (np.int64(space.ctypes.data) + 63) // 64 * 64
    for k in range(0, inner, piece):
        steps = min(piece, inner - k)
        add = 1 if k > 0 else accumulate
        for o in range(0, outer, COLUMNS):
            width, start = min(COLUMNS, outer - o), w0 + 4 * (k * outer + o)
            _copy_panel(start, outer, steps, width, panel)
            many_rows(x, k, panel, COLUMNS, y, rows, steps, o, width, add, start + 4 * COLUMNS, outer, LINES * steps)
