"""Sums over the rows of a matrix, plain and gated."""

from .activations import ONE, ZERO, sigmoid32
from .compile import exact_kernel, kernel


@kernel
def add_into(total, values):
    """total += values, both (n,) float32."""
    for i in range(len(total)):
        total[i] += values[i]


@kernel
def sum_rows(x, out):
    """out[j] = sum over rows of x[:, j]; x (rows, width), out (width,) float32."""
    for j in range(len(out)):
        out[j] = ZERO
    for r in range(x.shape[0]):
        row = x[r]
        for j in range(len(out)):
            out[j] += row[j]


@exact_kernel
def gated_sum(gate, x, out):
    """out[j] = sum over rows of sigmoid(gate[r, j]) x[r, j]; gate then holds the sigmoids. gate, x (rows, width)."""
    for j in range(len(out)):
        out[j] = ZERO
    for r in range(x.shape[0]):
        g, row = gate[r], x[r]
        for j in range(len(out)):
            g[j] = sigmoid32(g[j])
        for j in range(len(out)):
            out[j] += g[j] * row[j]


@exact_kernel
def gated_sum_backward(gate, x, d_out):
    """Gradients in place: gate (holding the sigmoids) and x become those of the two inputs; d_out (width,)."""
    for r in range(x.shape[0]):
        g, row = gate[r], x[r]
        for j in range(len(d_out)):
            gj, xj = g[j], row[j]
            g[j] = d_out[j] * xj * gj * (ONE - gj)
            row[j] = d_out[j] * gj
