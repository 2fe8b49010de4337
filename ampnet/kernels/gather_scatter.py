"""Rows picked from a table by number, and gradients added back to them."""

import numpy as np

from .compile import kernel
from .rows import add_row, copy_row


@kernel
def gather(table, ids, out):
    """out[i] = table[ids[i]]; table (n, width), ids (rows,) float32 holding whole numbers, out (rows, width)."""
    source, target, width = np.int64(table.ctypes.data), np.int64(out.ctypes.data), out.shape[1]
    for i in range(len(ids)):
        copy_row(source + 4 * width * np.int64(ids[i]), target + 4 * width * i, width)


@kernel
def scatter_add(gradient, ids, rows):
    """gradient[ids[i]] += rows[i]; the backward of `gather`, same shapes."""
    source, target, width = np.int64(rows.ctypes.data), np.int64(gradient.ctypes.data), rows.shape[1]
    for i in range(len(ids)):
        add_row(source + 4 * width * i, target + 4 * width * np.int64(ids[i]), width)


@kernel
def pick_rows(x, index, out):
    """out[i] = x[index[i]]; x (n, width), index (rows,) int64, out (rows, width)."""
    source, target, width = np.int64(x.ctypes.data), np.int64(out.ctypes.data), out.shape[1]
    for i in range(len(index)):
        copy_row(source + 4 * width * index[i], target + 4 * width * i, width)


@kernel
def add_rows(x, source, target, out):
    """out[target[i]] += x[source[i]]; x (n, width), source and target (edges,) int64, out (m, width)."""
    rows, total, width = np.int64(x.ctypes.data), np.int64(out.ctypes.data), out.shape[1]
    for i in range(len(source)):
        add_row(rows + 4 * width * source[i], total + 4 * width * target[i], width)
