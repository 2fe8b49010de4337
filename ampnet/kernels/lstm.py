"""The element-wise part of LSTM cells with any number of forget gates: none at a leaf, one in a sequence, two in a binary tree.

A row of `gates` is [i | o | f_1 .. f_n | u | t], each of H elements; a row of a cell's value is [h | c]:

    c = i u + sum_k f_k c_k        t = tanh(c)        h = o t            (Tai et al. 2015, equations 9-14)
"""

import numpy as np

from .activations import ONE, sigmoid, tanh
from .compile import exact_kernel
from .elements import over_rows

I, O, U, T, H, C, F_A, A, D_A, F_B, B, D_B = range(12)   # the rows that formulas go over; H and C of the value or its gradient


def _forward(i, o, u, *forgotten):
    i, o, u = sigmoid(i), sigmoid(o), tanh(u)
    forgets, c = [], i * u
    for f, before in zip(forgotten[::2], forgotten[1::2], strict=True):
        forgets.append(sigmoid(f))
        c = c + forgets[-1] * before
    t = tanh(c)
    return (i, o, u, t, o * t, c, *forgets)


def _backward(i, o, u, t, dh, dc_out, *forgotten):
    dc = dc_out + dh * o * (ONE - t * t)
    results = [dc * u * i * (ONE - i), dh * t * o * (ONE - o), dc * i * (ONE - u * u)]
    for f, before in zip(forgotten[::2], forgotten[1::2], strict=True):
        results += [dc * before * f * (ONE - f), dc * f]
    return tuple(results)


_forward_none = over_rows(_forward, (I, O, U), (I, O, U, T, H, C))
_forward_one = over_rows(_forward, (I, O, U, F_A, A), (I, O, U, T, H, C, F_A))
_forward_two = over_rows(_forward, (I, O, U, F_A, A, F_B, B), (I, O, U, T, H, C, F_A, F_B))
_backward_none = over_rows(_backward, (I, O, U, T, H, C), (I, O, U))
_backward_one = over_rows(_backward, (I, O, U, T, H, C, F_A, A), (I, O, U, F_A, D_A))
_backward_two = over_rows(_backward, (I, O, U, T, H, C, F_A, A, F_B, B), (I, O, U, F_A, D_A, F_B, D_B))


@exact_kernel
def _places(gates, row, forgets, hidden, value, a, b, d_a, d_b):
    """Addresses of all rows in the order of their names; those of missing forget gates are not looked at."""
    step = 4 * hidden
    i = gates + (4 + forgets) * step * row
    u, c = i + (2 + forgets) * step, (2 * row + 1) * step
    return (i, i + step, u, u + step, value + c - step, value + c, i + 2 * step, a + c, d_a, i + 3 * step, b + c, d_b)


@exact_kernel
def lstm_forward(gates, forgets, a, b, out):
    """From pre-activations to values, in place; also writes out = [h | c].

    gates (rows, (4 + forgets) H): i, o, f, u hold pre-activations; a, b, out (rows, 2 H): the values that the first and
    the second forget gate belong to. All float32, C-contiguous; those of missing forget gates are not looked at.
    """
    hidden = out.shape[1] // 2
    g, first, second, value = (np.int64(gates.ctypes.data), np.int64(a.ctypes.data), np.int64(b.ctypes.data),
                               np.int64(out.ctypes.data))
    for r in range(out.shape[0]):
        places = _places(g, r, forgets, hidden, value, first, second, 0, 0)
        if forgets == 0:
            _forward_none(hidden, places)
        elif forgets == 1:
            _forward_one(hidden, places)
        else:
            _forward_two(hidden, places)


@exact_kernel
def lstm_backward(gates, forgets, a, b, d_out, d_a, d_b):
    """The gradient of the pre-activations takes the place of i, o, f, u in `gates`; t is lost.

    gates as `lstm_forward` left them; a, b as there; d_out (rows, 2 H); d_a, d_b (rows, 2 H), of which the c half is
    written, or without rows where that gradient is not wanted.
    """
    hidden = d_out.shape[1] // 2
    g, first, second, d = (np.int64(gates.ctypes.data), np.int64(a.ctypes.data), np.int64(b.ctypes.data),
                           np.int64(d_out.ctypes.data))
    d_first, d_second = np.int64(d_a.ctypes.data), np.int64(d_b.ctypes.data)
    for r in range(d_out.shape[0]):
        t, c = g + 4 * hidden * ((4 + forgets) * (r + 1) - 1), 4 * hidden * (2 * r + 1)
        places = _places(g, r, forgets, hidden, d, first, second,   # what is not wanted takes the place of t
                         d_first + c if d_a.shape[0] > 0 else t, d_second + c if d_b.shape[0] > 0 else t)
        if forgets == 0:
            _backward_none(hidden, places)
        elif forgets == 1:
            _backward_one(hidden, places)
        else:
            _backward_two(hidden, places)
