"""How kernels are compiled: one decorator, one set of fast-math flags."""

from numba import njit, types
from numba.core.registry import CPUDispatcher

# Without nnan and ninf: with them LLVM may assume that NaN never happens, and a divergence guard would find nothing.
FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}


class Part(CPUDispatcher):
    """A function that is only ever compiled into others: once, where Numba would compile it anew for each constant that it is
    called with, and without what a call from Python needs. Such a call would crash, so it raises."""

    def get_call_template(self, args, kws):
        kinds = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(types.unliteral, args)), kinds)

    def __call__(self, *args, **kws):
        raise TypeError(f"{self.py_func.__name__} is a part of compiled functions: call it from one, or its `py_func`")


def part(function, **options):
    """Decorator that makes a `Part`; options: of Numba's `njit`."""
    made = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
    if isinstance(made, CPUDispatcher):   # not under NUMBA_DISABLE_JIT
        made.__class__ = Part
    return made


def kernel_part(function):
    """Decorator of a part of kernels."""
    return part(function, fastmath=FASTMATH)


kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)

# fastmath is named: left out, Numba would compile a callee with the flags of its first caller. A product and a sum may
# become one operation, which rounds once instead of twice; nothing is reordered.
exact_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
# Sums may be split, so that they become vectors; nothing is assumed of NaN, infinity, zero or division.
guard_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
