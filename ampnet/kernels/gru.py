"""The element-wise part of a GRU cell.

A row of `gates` is [n | r | z | m], each of H elements, where n and m are the two parts of the candidate:

    h' = (1 - z) tanh(n + r m) + z h        (Cho et al. 2014, in the form of torch.nn.GRUCell)
"""

import numpy as np

from .activations import ONE, sigmoid, tanh
from .compile import exact_kernel
from .elements import over_rows

N, R, Z, M, H, OUT = range(6)   # the rows that formulas go over
D, D_H = OUT, OUT + 1


def _forward(n, r, z, m, h):
    r, z = sigmoid(r), sigmoid(z)
    n = tanh(n + r * m)
    return n, r, z, n + z * (h - n)


def _backward(n, r, z, m, h, d):
    dn = d * (ONE - z) * (ONE - n * n)
    return dn, dn * m * r * (ONE - r), d * (h - n) * z * (ONE - z), dn * r, d * z


_forward_rows = over_rows(_forward, (N, R, Z, M, H), (N, R, Z, OUT))
_backward_rows = over_rows(_backward, (N, R, Z, M, H, D), (N, R, Z, M, D_H))
_backward_rows_alone = over_rows(lambda *rows: _backward(*rows)[:4], (N, R, Z, M, H, D), (N, R, Z, M))


@exact_kernel
def gru_forward(gates, h, out):
    """From pre-activations to values, in place: n holds the candidate afterwards. out = h'.

    gates (rows, 4 H), h and out (rows, H), float32, C-contiguous.
    """
    rows, hidden = out.shape
    g, before, after = np.int64(gates.ctypes.data), np.int64(h.ctypes.data), np.int64(out.ctypes.data)
    step = 4 * hidden
    for q in range(rows):
        n = g + 4 * step * q
        _forward_rows(hidden, (n, n + step, n + 2 * step, n + 3 * step, before + step * q, after + step * q))


@exact_kernel
def gru_backward(gates, h, d_out, d_h):
    """The gradient of the pre-activations takes their place in `gates`; d_h = d_out z, or nothing if it has no rows.

    gates as `gru_forward` left them; h, d_out, d_h (rows, H) float32, C-contiguous.
    """
    rows, hidden = d_out.shape
    g, before, d, d_before = (np.int64(gates.ctypes.data), np.int64(h.ctypes.data), np.int64(d_out.ctypes.data),
                              np.int64(d_h.ctypes.data))
    step = 4 * hidden
    for q in range(rows):
        n = g + 4 * step * q
        if d_h.shape[0] > 0:
            _backward_rows(hidden, (n, n + step, n + 2 * step, n + 3 * step, before + step * q, d + step * q,
                                    d_before + step * q))
        else:
            _backward_rows_alone(hidden, (n, n + step, n + 2 * step, n + 3 * step, before + step * q, d + step * q))
