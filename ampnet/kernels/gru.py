"""The element-wise part of a GRU cell.

A row of `gates` is [n | r | z | m], each of H elements, where n and m are the two parts of the candidate:

    h' = (1 - z) tanh(n + r m) + z h        (Cho et al. 2014, in the form of torch.nn.GRUCell)
"""

from .activations import ONE, sigmoid32, tanh32
from .compile import exact_kernel


@exact_kernel
def gru_forward(gates, h, out):
    """From pre-activations to values, in place: n holds the candidate afterwards. out = h'.

    gates (rows, 4 H), h and out (rows, H), float32.
    """
    hidden = out.shape[1]
    for q in range(out.shape[0]):
        row, before, after = gates[q], h[q], out[q]
        sigmoids = row[hidden:3 * hidden]
        for j in range(len(sigmoids)):
            sigmoids[j] = sigmoid32(sigmoids[j])
        n, r, z, m = row[:hidden], row[hidden:2 * hidden], row[2 * hidden:3 * hidden], row[3 * hidden:]
        for j in range(hidden):
            n[j] += r[j] * m[j]
        for j in range(hidden):
            n[j] = tanh32(n[j])
        for j in range(hidden):
            after[j] = n[j] + z[j] * (before[j] - n[j])


@exact_kernel
def gru_backward(gates, h, d_out, d_h):
    """The gradient of the pre-activations takes their place in `gates`; d_h = d_out z, or nothing if it has no rows.

    gates as `gru_forward` left them; h, d_out, d_h (rows, H) float32.
    """
    hidden = d_out.shape[1]
    for q in range(d_out.shape[0]):
        row, before, d = gates[q], h[q], d_out[q]
        n, r, z, m = row[:hidden], row[hidden:2 * hidden], row[2 * hidden:3 * hidden], row[3 * hidden:]
        if d_h.shape[0] > 0:
            direct = d_h[q]
            for j in range(hidden):
                direct[j] = d[j] * z[j]
        for j in range(hidden):
            nj, zj = n[j], z[j]
            n[j] = d[j] * (ONE - zj) * (ONE - nj * nj)
            z[j] = d[j] * (before[j] - nj) * zj * (ONE - zj)
        for j in range(hidden):
            rj, mj = r[j], m[j]
            r[j] = n[j] * mj * rj * (ONE - rj)
            m[j] = n[j] * rj
