"""Optimizers on flat float32 arrays, and learning-rate schedules.

The rules are those of torch.optim: weight decay is added to the gradient, momentum has no dampening, Adam corrects its
bias.
"""

import math

import numpy as np

from .compile import exact_kernel, guard_kernel, kernel

SGD, MOMENTUM, ADAGRAD, ADAM = range(4)
CODES = {"sgd": SGD, "momentum": MOMENTUM, "adagrad": ADAGRAD, "adam": ADAM}
STATES = {SGD: 0, MOMENTUM: 1, ADAGRAD: 1, ADAM: 2}  # state arrays a rule needs

CONSTANT, STEP, COSINE = range(3)
SCHEDULES = {"constant": CONSTANT, "step": STEP, "cosine": COSINE}

ZERO = np.float32(0)
STRETCH = 4096   # elements whose squares are summed in float32


@kernel
def step(code, weight, gradient, first, second, scale, rate, beta1, beta2, epsilon, decay, number):
    """One update with g = gradient * scale + decay * weight; the gradient is 0 afterwards. All arrays (n,) float32.

    SGD       w -= rate g
    MOMENTUM  m = beta1 m + g;                          w -= rate m                                     (first: m)
    ADAGRAD   s += g^2;                                 w -= rate g / (sqrt(s) + epsilon)               (first: s)
    ADAM      m = beta1 m + (1 - beta1) g;  v likewise with beta2 and g^2;
              w -= rate m / (1 - beta1^number) / (sqrt(v / (1 - beta2^number)) + epsilon)       (first: m, second: v)
    """
    c, lr, decay_, epsilon_ = np.float32(scale), np.float32(rate), np.float32(decay), np.float32(epsilon)
    b1, b2 = np.float32(beta1), np.float32(beta2)
    rest1, rest2 = np.float32(1.0 - beta1), np.float32(1.0 - beta2)  # 1 - float32(0.999) would be 1.3e-5 off
    if code == SGD:
        for i in range(len(weight)):
            weight[i] -= lr * (gradient[i] * c + decay_ * weight[i])
            gradient[i] = ZERO
    elif code == MOMENTUM:
        for i in range(len(weight)):
            first[i] = b1 * first[i] + (gradient[i] * c + decay_ * weight[i])
            weight[i] -= lr * first[i]
            gradient[i] = ZERO
    elif code == ADAGRAD:
        for i in range(len(weight)):
            g = gradient[i] * c + decay_ * weight[i]
            first[i] += g * g
            weight[i] -= lr * g / (np.sqrt(first[i]) + epsilon_)
            gradient[i] = ZERO
    else:
        lr_corrected = np.float32(rate / (1.0 - beta1 ** number))
        root = np.float32(1.0 / math.sqrt(1.0 - beta2 ** number))
        for i in range(len(weight)):
            g = gradient[i] * c + decay_ * weight[i]
            first[i] = b1 * first[i] + rest1 * g
            second[i] = b2 * second[i] + rest2 * (g * g)
            weight[i] -= lr_corrected * first[i] / (np.sqrt(second[i]) * root + epsilon_)
            gradient[i] = ZERO


@guard_kernel
def squared_norm(gradient):
    """Sum of squares of a (n,) float32 array; not finite exactly when an element is not.

    Stretches are summed in float32, the whole in float64; where squares overflow, all in float64, in which none can.
    """
    total = 0.0
    for start in range(0, len(gradient), STRETCH):
        stretch, part = gradient[start:start + STRETCH], ZERO
        for i in range(len(stretch)):
            part += stretch[i] * stretch[i]
        total += np.float64(part)
    if math.isfinite(total):
        return total
    total = 0.0
    for i in range(len(gradient)):
        total += np.float64(gradient[i]) * np.float64(gradient[i])
    return total


@exact_kernel
def clip_factor(squared, scale, clip):
    """What a gradient with this squared norm, times `scale`, must be multiplied by to have a norm of at most `clip`.

    clip 0: never clipped.
    """
    norm = math.sqrt(squared) * scale
    return clip / norm if clip > 0 and norm > clip else 1.0


@exact_kernel
def learning_rate(schedule, base, instances, total, warmup, step_every, step_factor):
    """The rate after `instances` of `total` training instances; it means the same for any update frequency.

    CONSTANT: base. STEP: base * step_factor^(instances // step_every). COSINE: from base to 0 over `total`.
    Over the first `warmup` instances all of them rise linearly.
    """
    rate = base
    if schedule == STEP:
        rate = base * step_factor ** (instances // max(1, step_every))
    elif schedule == COSINE:
        rate = base * 0.5 * (1.0 + math.cos(math.pi * min(1.0, instances / max(1, total))))
    if instances < warmup:
        rate *= (instances + 1) / warmup
    return rate
