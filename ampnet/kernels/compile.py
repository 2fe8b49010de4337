"""How kernels are compiled: one decorator, one set of fast-math flags."""

from numba import njit

# Without nnan and ninf: with them LLVM may assume that NaN never happens, and a divergence guard would find nothing.
FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}

kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
exact_kernel = njit(cache=True, nogil=True, error_model="numpy")
