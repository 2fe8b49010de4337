"""The element-wise part of LSTM cells with any number of forget gates: none at a leaf, one in a sequence, two in a binary tree.

A row of `gates` is [i | o | f_1 .. f_n | u | t], each of H elements; a row of a cell's value is [h | c]:

    c = i u + sum_k f_k c_k        t = tanh(c)        h = o t            (Tai et al. 2015, equations 9-14)
"""

from .activations import ONE, sigmoid32, tanh32
from .compile import exact_kernel


@exact_kernel
def lstm_forward(gates, forgets, a, b, out):
    """From pre-activations to values, in place; also writes out = [h | c].

    gates (rows, (4 + forgets) H): i, o, f, u hold pre-activations; a, b, out (rows, 2 H): the values that the first and
    the second forget gate belong to. All float32; those of missing forget gates are not looked at.
    """
    hidden = out.shape[1] // 2
    first_u = (2 + forgets) * hidden
    for r in range(out.shape[0]):
        row = gates[r]
        h, c = out[r, :hidden], out[r, hidden:]
        i, o, u, t = row[:hidden], row[hidden:2 * hidden], row[first_u:first_u + hidden], row[first_u + hidden:]
        for j in range(first_u):
            row[j] = sigmoid32(row[j])
        for j in range(hidden):   # from 0: with another start, LLVM leaves a loop scalar
            u[j] = tanh32(u[j])
        for j in range(hidden):
            c[j] = i[j] * u[j]
        if forgets > 0:
            f, before = row[2 * hidden:3 * hidden], a[r, hidden:]
            for j in range(hidden):
                c[j] += f[j] * before[j]
        if forgets > 1:
            f, before = row[3 * hidden:4 * hidden], b[r, hidden:]
            for j in range(hidden):
                c[j] += f[j] * before[j]
        for j in range(hidden):
            t[j] = tanh32(c[j])
        for j in range(hidden):
            h[j] = o[j] * t[j]


@exact_kernel
def _forget_backward(f, before, dc, d_before):
    """Of one forget gate: f becomes the gradient of its pre-activation; d_before = dc f where that is wanted."""
    if len(d_before) > 0:
        for j in range(len(f)):
            d_before[j] = dc[j] * f[j]
    for j in range(len(f)):
        f[j] = dc[j] * before[j] * f[j] * (ONE - f[j])


@exact_kernel
def lstm_backward(gates, forgets, a, b, d_out, d_a, d_b):
    """The gradient of the pre-activations takes the place of i, o, f, u in `gates`; t is lost.

    gates as `lstm_forward` left them; a, b as there; d_out (rows, 2 H); d_a, d_b (rows, 2 H), of which the c half is
    written, or without rows where that gradient is not wanted.
    """
    hidden = d_out.shape[1] // 2
    first_u = (2 + forgets) * hidden
    for r in range(d_out.shape[0]):
        row, dh, dc_out = gates[r], d_out[r, :hidden], d_out[r, hidden:]
        nothing = row[:0]
        i, o, u, t = row[:hidden], row[hidden:2 * hidden], row[first_u:first_u + hidden], row[first_u + hidden:]
        for j in range(hidden):
            tj, oj = t[j], o[j]
            t[j] = dc_out[j] + dh[j] * oj * (ONE - tj * tj)   # dc, from here on
            o[j] = dh[j] * tj * oj * (ONE - oj)
        if forgets > 0:
            _forget_backward(row[2 * hidden:3 * hidden], a[r, hidden:], t, d_a[r, hidden:] if d_a.shape[0] > 0 else nothing)
        if forgets > 1:
            _forget_backward(row[3 * hidden:4 * hidden], b[r, hidden:], t, d_b[r, hidden:] if d_b.shape[0] > 0 else nothing)
        for j in range(hidden):
            ij, uj = i[j], u[j]
            i[j] = t[j] * uj * ij * (ONE - ij)
            u[j] = t[j] * ij * (ONE - uj * uj)
