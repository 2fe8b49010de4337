import math
from .compile import exact_kernel
@exact_kernel
def softmax_cross_entropy(x, labels, g, scale, with_gradient):
    loss = 0.0
    correct = 0
    for r in range(x.shape[0]):
        best = 0
        for j in range(x.shape[1]):
            if x[r, j] > x[r, best]:
                best = j
        m = x[r, best]
        s = 0.0
        for j in range(x.shape[1]):
            s += math.exp(x[r, j] - m)
        lab = int(labels[r])
        loss += math.log(s) + m - x[r, lab]
        correct += best == lab
        if with_gradient:
            for j in range(x.shape[1]):
                g[r, j] = (math.exp(x[r, j] - m) / s - (1.0 if j == lab else 0.0)) * scale
    return loss, correct
@exact_kernel
def squared_error(p, t, g, scale, with_gradient):
    loss = 0.0
    err = 0.0
    for r in range(p.shape[0]):
        for j in range(p.shape[1]):
            d = p[r, j] - t[r, j]
            loss += 0.5 * d * d
            err += abs(d)
            if with_gradient:
                g[r, j] = d * scale
    return loss, err
