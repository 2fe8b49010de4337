"""How kernels are compiled: one decorator, one set of fast-math flags."""

from numba import njit

# Without nnan and ninf: with them LLVM may assume that NaN never happens, and a divergence guard would find nothing.
FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}

kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
# fastmath is named: left out, Numba would compile a callee with the flags of its first caller. A product and a sum may
# become one operation, which rounds once instead of twice; nothing is reordered.
exact_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
# Sums may be split, so that they become vectors; nothing is assumed of NaN, infinity, zero or division.
guard_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
