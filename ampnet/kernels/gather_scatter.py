"""Rows picked from a table by number, and gradients added back to them."""

from .compile import kernel


@kernel
def gather(table, ids, out):
    """out[i] = table[ids[i]]; table (n, width), ids (rows,) float32 holding whole numbers, out (rows, width)."""
    for i in range(len(ids)):
        source, target = table[int(ids[i])], out[i]
        for j in range(len(target)):
            target[j] = source[j]


@kernel
def scatter_add(gradient, ids, rows):
    """gradient[ids[i]] += rows[i]; the backward of `gather`, same shapes."""
    for i in range(len(ids)):
        target, source = gradient[int(ids[i])], rows[i]
        for j in range(len(target)):
            target[j] += source[j]


@kernel
def pick_rows(x, index, out):
    """out[i] = x[index[i]]; x (n, width), index (rows,) int64, out (rows, width)."""
    for i in range(len(index)):
        source, target = x[index[i]], out[i]
        for j in range(len(target)):
            target[j] = source[j]


@kernel
def add_rows(x, source, target, out):
    """out[target[i]] += x[source[i]]; x (n, width), source and target (edges,) int64, out (m, width)."""
    for i in range(len(source)):
        row, total = x[source[i]], out[target[i]]
        for j in range(len(total)):
            total[j] += row[j]
