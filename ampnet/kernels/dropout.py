"""Dropout whose mask is a function of a key and the element's number: nothing is stored, and nobody's order matters."""

import numpy as np

from .compile import exact_kernel

STEP = np.uint64(0x9E3779B97F4A7C15)


@exact_kernel
def mix(word):
    """A bijection of 64 bits without visible pattern: the finaliser of SplitMix64 (Steele et al. 2014)."""
    z = np.uint64(word)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@exact_kernel
def drop(values, key, rate):
    """values[i] becomes 0 with probability `rate`, values[i] / (1 - rate) otherwise. values (n,) float32, key uint64.

    Element i draws 32 bits of the (i // 2)-th number of the stream that starts at `key`. The same call on a gradient is
    the backward pass.
    """
    limit = np.uint64(rate * 4294967296.0)
    scale = np.float32(1.0 / (1.0 - rate))
    at = np.uint64(key)
    for i in range(0, len(values), 2):
        at += STEP
        bits = mix(at)
        values[i] *= scale if (bits & np.uint64(0xFFFFFFFF)) >= limit else np.float32(0)
        if i + 1 < len(values):
            values[i + 1] *= scale if (bits >> np.uint64(32)) >= limit else np.float32(0)
