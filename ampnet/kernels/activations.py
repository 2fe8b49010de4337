"""Activations: ReLU, tanh, sigmoid, and the exponential they are made of.

All work in place on float32 arrays, as loops that LLVM vectorises. A NaN stays a NaN.

Everything here is compiled without fast-math, the loops too. Reassociation would merge the two parts of ln 2 that keep
the argument of exp exact; and Numba hands a caller's flags down to a callee that sets none, so that a fast-math loop
would spoil exp, and the cache would keep it.
"""

import math

import numpy as np

from .compile import exact_kernel

NONE, RELU, TANH, SIGMOID = 0, 1, 2, 3
CODES = {None: NONE, "relu": RELU, "tanh": TANH, "sigmoid": SIGMOID}

ONE, TWO, HALF, ZERO = np.float32(1), np.float32(2), np.float32(0.5), np.float32(0)
LARGEST, SMALLEST = np.float32(89), np.float32(-104)  # beyond these exp is infinite or 0 in float32
LOG2_E = np.float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
EXP_TERMS = tuple(map(np.float32, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
                                   5.0000001201e-1)))
TANH_TERMS = tuple(map(np.float32, (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
                                    -3.33332819422e-1)))
TANH_SWITCH = np.float32(0.625)


@exact_kernel
def _power_of_two(n):
    """2^n for an int32 n in [-126, 127], from the bits of the float."""
    return np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)


@exact_kernel
def exp32(x):
    """e^x in float32, within 1 ulp: 2^n e^r with |r| <= ln 2 / 2, e^r by the polynomial of Cephes' expf (Moshier).

    2^n is multiplied in two halves, as n may be 128 or below -126, where 2^n has no float32 of its own.
    """
    y = LARGEST if x > LARGEST else x
    y = SMALLEST if y < SMALLEST else y
    n = np.floor(y * LOG2_E + HALF)
    r = (y - n * LN2_HIGH) - n * LN2_LOW
    p = EXP_TERMS[0]
    p = p * r + EXP_TERMS[1]
    p = p * r + EXP_TERMS[2]
    p = p * r + EXP_TERMS[3]
    p = p * r + EXP_TERMS[4]
    p = p * r + EXP_TERMS[5]
    p = p * (r * r) + r + ONE
    whole = np.int32(n)
    half = np.int32(whole >> np.int32(1))
    result = p * _power_of_two(half) * _power_of_two(np.int32(whole - half))
    return result if x == x else x


@exact_kernel
def sigmoid32(x):
    """1 / (1 + e^-x), within 3 ulp; 0 below x = -88.7, where e^-x is infinite in float32."""
    return ONE / (ONE + exp32(-x))


@exact_kernel
def tanh32(x):
    """tanh x, within 2 ulp: a polynomial (Cephes' tanhf) for small |x|, 1 - 2 / (e^2|x| + 1) elsewhere.

    The two are blended by a weight of 0 or 1: a branch between them would keep the loop from being vectorised.
    """
    size = abs(x)
    y = TANH_SWITCH if size > TANH_SWITCH else size
    z = y * y
    p = TANH_TERMS[0]
    p = p * z + TANH_TERMS[1]
    p = p * z + TANH_TERMS[2]
    p = p * z + TANH_TERMS[3]
    p = p * z + TANH_TERMS[4]
    small = p * z * y + y
    large = ONE - TWO / (exp32(TWO * size) + ONE)
    is_large = ZERO if size < TANH_SWITCH else ONE
    return math.copysign(small * (ONE - is_large) + large * is_large, x)


@exact_kernel
def activate(code, values):
    """values = f(values); values (n,) float32."""
    if code == RELU:
        for i in range(len(values)):
            values[i] = ZERO if values[i] < ZERO else values[i]
    elif code == TANH:
        for i in range(len(values)):
            values[i] = tanh32(values[i])
    elif code == SIGMOID:
        for i in range(len(values)):
            values[i] = sigmoid32(values[i])


@exact_kernel
def activate_backward(code, outputs, gradient):
    """gradient *= f'(x), from the outputs y: 1 where y > 0 (ReLU), 1 - y^2 (tanh), y (1 - y) (sigmoid); both (n,)."""
    if code == RELU:
        for i in range(len(outputs)):
            gradient[i] = gradient[i] if outputs[i] > ZERO else ZERO
    elif code == TANH:
        for i in range(len(outputs)):
            gradient[i] *= ONE - outputs[i] * outputs[i]
    elif code == SIGMOID:
        for i in range(len(outputs)):
            gradient[i] *= outputs[i] * (ONE - outputs[i])


@exact_kernel
def add_bias_activate(code, values, bias):
    """values[r] = f(values[r] + bias); values (rows, cols), bias (cols,) float32."""
    for r in range(values.shape[0]):
        row = values[r]
        if code == RELU:
            for j in range(len(row)):
                y = row[j] + bias[j]
                row[j] = ZERO if y < ZERO else y
        elif code == TANH:
            for j in range(len(row)):
                row[j] = tanh32(row[j] + bias[j])
        elif code == SIGMOID:
            for j in range(len(row)):
                row[j] = sigmoid32(row[j] + bias[j])
        else:
            for j in range(len(row)):
                row[j] += bias[j]
