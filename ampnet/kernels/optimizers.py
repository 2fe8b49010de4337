import math
import numpy as np
from .compile import exact_kernel, kernel
SGD, MOMENTUM, ADAGRAD, ADAM = range(4)
CODES = {"sgd": 0, "momentum": 1, "adagrad": 2, "adam": 3}
STATES = {0: 0, 1: 1, 2: 1, 3: 2}
CONSTANT, STEP, COSINE = range(3)
SCHEDULES = {"constant": 0, "step": 1, "cosine": 2}
@kernel
def step(code, w, g, m, v, scale, rate, beta1, beta2, epsilon, decay, number):
    f = np.float32
    scale, rate_, b1, b2, eps, wd = f(scale), f(rate), f(beta1), f(beta2), f(epsilon), f(decay)
    if code == 0:
        for i in range(len(w)):
            w[i] -= rate_ * (g[i] * scale + wd * w[i])
            g[i] = 0
    elif code == 1:
        for i in range(len(w)):
            m[i] = b1 * m[i] + g[i] * scale + wd * w[i]
            w[i] -= rate_ * m[i]
            g[i] = 0
    elif code == 2:
        for i in range(len(w)):
            d = g[i] * scale + wd * w[i]
            m[i] += d * d
            w[i] -= rate_ * d / (math.sqrt(m[i]) + eps)
            g[i] = 0
    else:
        c1 = f(rate / (1 - beta1 ** number))
        c2 = f(1 / math.sqrt(1 - beta2 ** number))
        one = f(1)
        for i in range(len(w)):
            d = g[i] * scale + wd * w[i]
            m[i] = b1 * m[i] + (one - b1) * d
            v[i] = b2 * v[i] + (one - b2) * d * d
            w[i] -= c1 * m[i] / (math.sqrt(v[i]) * c2 + eps)
            g[i] = 0
@kernel
def squared_norm(g):
    t = 0.0
    for i in range(len(g)):
        t += np.float64(g[i]) * g[i]
    return t
@exact_kernel
def clip_factor(sq, scale, clip):
    n = math.sqrt(sq) * scale
    return clip / n if clip > 0 and n > clip else 1.0
@exact_kernel
def learning_rate(schedule, base, instances, total, warmup, step_every, step_factor):
    rate = base
    if schedule == 1:
        rate = base * step_factor ** (instances // step_every)
    elif schedule == 2:
        rate = base * 0.5 * (1 + math.cos(math.pi * min(1.0, instances / max(1, total))))
    if instances < warmup:
        rate *= (instances + 1) / warmup
    return rate
