"""Records and arrays over raw memory.

Compiled code passes records by address (an int64). `record(dtype)` makes the view of one: `NODE(address).version += 1`
compiles to plain loads and stores. `matrix`, `vector` and `integers` are array views over an address.
"""

import numpy as np
from numba import carray, from_dtype, njit, types
from numba.extending import intrinsic

from ..kernels.compile import part
from .atomics import c_aligned_alloc, c_free

LINE = 64            # bytes of a cache line


def helper(function):
    """Decorator of a function that is compiled into those that call it."""
    return part(function)


def record(dtype):
    """An intrinsic that views the memory at an address as a record of `dtype`."""
    kind = from_dtype(dtype)

    @intrinsic
    def view(context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(kind))
        return kind(types.int64), generate

    return view


def _pointer(scalar):
    @intrinsic
    def cast(context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))
        return types.CPointer(scalar)(types.int64), generate

    return cast


_float32_at, _int64_at, _int32_at, _byte_at = map(_pointer, (types.float32, types.int64, types.int32, types.uint8))


@helper
def matrix(address, rows, cols):
    """View of a C-contiguous float32 matrix."""
    return carray(_float32_at(address), (rows, cols))


@helper
def vector(address, size):
    """View of a float32 vector."""
    return carray(_float32_at(address), (size,))


@helper
def integers(address, size):
    """View of int64 words: a table of addresses, counters, offsets."""
    return carray(_int64_at(address), (size,))


@helper
def octets(address, size):
    """View of bytes."""
    return carray(_byte_at(address), (size,))


@helper
def octet_matrix(address, rows, cols):
    """View of a C-contiguous matrix of bytes."""
    return carray(_byte_at(address), (rows, cols))


@helper
def short_integer(address):
    """The int32 at an address."""
    return carray(_int32_at(address), (1,))[0]


def layout(*fields, lines=()):
    """A record of 8-byte fields (int64, or (name, dtype)); a field named in `lines` starts a cache line of its own."""
    names, formats, offsets, at = [], [], [], 0
    for field in fields:
        name, kind = field if isinstance(field, tuple) else (field, np.int64)
        if name in lines:
            at = -(-at // LINE) * LINE
        names.append(name)
        formats.append(kind)
        offsets.append(at)
        at += np.dtype(kind).itemsize
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": -(-at // LINE) * LINE})


def allocate(dtype, count=1):
    """Zeroed, cache-line aligned array of `count` records, owned by Python."""
    dtype = np.dtype(dtype)
    raw = np.zeros(dtype.itemsize * count + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start:start + dtype.itemsize * count].view(dtype)


@helper
def plain_memory(nbytes):
    """Aligned memory of the system's, not a block."""
    return c_aligned_alloc(LINE, (nbytes + LINE - 1) // LINE * LINE)


@helper
def size_of(nbytes):
    """The smallest block size whose payload holds `nbytes`."""
    size = 0
    while (LINE << size) < nbytes:
        size += 1
    return size


@njit("void(int64)", cache=True, nogil=True)
def free_memory(address):
    """Return what `plain_memory` gave."""
    c_free(address)
