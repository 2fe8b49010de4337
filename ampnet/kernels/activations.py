"""Activations: ReLU, tanh, sigmoid, and the exponential they are made of.

All work in place on float32 arrays, as loops that LLVM vectorises. A NaN stays a NaN.

Nothing here may be reassociated, which would merge the two parts of ln 2 that keep the argument of exp exact: formulas name
the flags of their own operations (elements.py), and loops are compiled without.
"""

import numpy as np

from .compile import exact_kernel
from .elements import scalar
from .rows import add_row

NONE, RELU, TANH, SIGMOID = 0, 1, 2, 3
CODES = {None: NONE, "relu": RELU, "tanh": TANH, "sigmoid": SIGMOID}

ONE, TWO, HALF, ZERO = np.float32(1), np.float32(2), np.float32(0.5), np.float32(0)
LARGEST, SMALLEST = np.float32(89), np.float32(-104)  # beyond these exp is infinite or 0 in float32
SIGMOID_LARGEST, TANH_LARGEST = np.float32(20), np.float32(20)  # sigmoid(20) and tanh(20 / 2) are 1 in float32
LOG2_E = np.float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
EXP_TERMS = tuple(map(np.float32, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
                                   5.0000001201e-1)))
ROUND = np.float32(1.5 * 2**23 + 127)  # x + ROUND has x, rounded, plus the bias of an exponent in its lowest bits


def _reduce(x):
    """n + ROUND and e^r - 1 for x = n ln 2 + r, |r| <= ln 2 / 2, by the polynomial of Cephes' expf (Moshier)."""
    shifted = x * LOG2_E + ROUND
    n = shifted - ROUND
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = r * EXP_TERMS[0] + EXP_TERMS[1]
    for term in EXP_TERMS[2:]:
        p = p * r + term
    return shifted, p * (r * r) + r


def _power_of_two(shifted):
    """2^n for n + ROUND, n in [-127, 128], the ends being 0 and infinity."""
    return shifted.low_bits_as_exponent()


def exp(x):
    """e^x in float32, within 1 ulp.

    2^n is multiplied in two halves, as n may be 128 or below -126, where 2^n has no float32 of its own.
    """
    shifted, p = _reduce(x.at_most(LARGEST).at_least(SMALLEST))
    half = ((shifted - ROUND) * HALF).floor()
    return (p + ONE) * _power_of_two(half + ROUND) * _power_of_two(shifted - half)


def sigmoid(x):
    """1 / (1 + e^-x), within 3 ulp; 0 below x = -88.4, where 2^n is infinite in float32."""
    shifted, p = _reduce((ZERO - x).at_most(LARGEST).at_least(-SIGMOID_LARGEST))
    return ONE / (ONE + (p + ONE) * _power_of_two(shifted))


def tanh(x):
    """tanh x = (e^2|x| - 1) / (e^2|x| + 1) with the sign of x, within 3 ulp; e^r - 1 keeps small results exact."""
    shifted, p = _reduce(abs(x + x).at_most(TANH_LARGEST))
    scale = _power_of_two(shifted)
    less_one = p * scale + (scale - ONE)
    return (less_one / (less_one + TWO)).with_sign_of(x)


exp32, sigmoid32, tanh32 = map(scalar, (exp, sigmoid, tanh))


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
            add_row(np.int64(bias.ctypes.data), np.int64(row.ctypes.data), len(row))
