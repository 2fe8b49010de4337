"""How kernels are compiled: one decorator, one set of fast-math flags."""

from numba import njit, types

# Without nnan and ninf: with them LLVM may assume that NaN never happens, and a divergence guard would find nothing.
FASTMATH = {"reassoc", "contract", "arcp", "nsz", "afn"}
WITHOUT_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}   # what only compiled code calls needs none


def for_any_value(dispatcher):
    """Numba compiles a function anew for each constant that it is called with; this one is compiled once for all."""
    template_of = dispatcher.get_call_template

    def get_call_template(args, kws):
        return template_of(tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)


def part(function):
    """Decorator of a part of kernels, which is compiled into them and cannot be called from Python."""
    return for_any_value(njit(nogil=True, error_model="numpy", fastmath=FASTMATH, **WITHOUT_WRAPPERS)(function))


# fastmath is named: left out, Numba would compile a callee with the flags of its first caller. A product and a sum may
# become one operation, which rounds once instead of twice; nothing is reordered.
exact_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
# Sums may be split, so that they become vectors; nothing is assumed of NaN, infinity, zero or division.
guard_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
