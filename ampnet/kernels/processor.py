"""What the processor can do that kernels are compiled for."""

from numba import config
from numba.core.codegen import get_host_cpu_features


def has_wide_vectors() -> bool:
    """Whether it has AVX-512: vectors of 16 floats, 32 registers for them, loads and stores of part of one.

    It is this machine, or what NUMBA_CPU_FEATURES says instead.
    """
    features = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    return "+avx512f" in features.split(",")
