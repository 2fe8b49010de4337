import math
from .compile import kernel
NONE, RELU, TANH, SIGMOID = 0, 1, 2, 3
CODES = {None: 0, "relu": 1, "tanh": 2, "sigmoid": 3}
@kernel
def activate(code, v):
    if code == 1:
        for i in range(len(v)):
            v[i] = v[i] if v[i] > 0 else 0
    elif code == 2:
        for i in range(len(v)):
            v[i] = math.tanh(v[i])
    elif code == 3:
        for i in range(len(v)):
            v[i] = 1 / (1 + math.exp(-v[i]))
@kernel
def activate_backward(code, y, g):
    if code == 1:
        for i in range(len(y)):
            g[i] = g[i] if y[i] > 0 else 0
    elif code == 2:
        for i in range(len(y)):
            g[i] *= 1 - y[i] * y[i]
    elif code == 3:
        for i in range(len(y)):
            g[i] *= y[i] * (1 - y[i])
@kernel
def add_bias_activate(code, v, b):
    for r in range(v.shape[0]):
        if code == 1:
            for j in range(v.shape[1]):
                t = v[r, j] + b[j]
                v[r, j] = t if t > 0 else 0
        else:
            for j in range(v.shape[1]):
                v[r, j] += b[j]
            if code:
                activate(code, v[r])
