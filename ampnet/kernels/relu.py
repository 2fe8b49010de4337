"""ReLU that keeps a bit an element for backward, not a copy of its outputs.

The bits of a row lie in `bits_width(cols)` float32 words, the lowest bit first.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compile import exact_kernel, kernel_part
from .tiles import LANES, VECTOR

BITS = ir.IntType(LANES)
ZERO = ir.Constant(VECTOR, [0.0] * LANES)


def bits_width(cols):
    """Columns of float32 that a row's bits take."""
    return (cols + 31) // 32


bits_length = kernel_part(bits_width)   # the same for compiled code


def _vector_at(builder, address):
    return builder.inttoptr(address, VECTOR.as_pointer())


@intrinsic
def _bias_relu_vector(context, y, bias, bits):
    """LANES elements at address y: max(y + bias, 0), where a NaN stays one; and whether each is above 0."""
    def generate(context, builder, signature, arguments):
        y, bias, bits = arguments
        to = _vector_at(builder, y)
        value = builder.fadd(builder.load(to, align=4), builder.load(_vector_at(builder, bias), align=4))
        value = builder.select(builder.fcmp_ordered("<", value, ZERO), ZERO, value)
        builder.store(value, to, align=4)
        above = builder.bitcast(builder.fcmp_ordered(">", value, ZERO), BITS)
        builder.store(above, builder.inttoptr(bits, BITS.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@intrinsic
def _relu_backward_vector(context, bits, gradient):
    """LANES elements of the gradient, 0 where the bit is not set."""
    def generate(context, builder, signature, arguments):
        bits, gradient = arguments
        kept = builder.load(builder.inttoptr(bits, BITS.as_pointer()), align=1)
        kept = builder.bitcast(kept, ir.VectorType(ir.IntType(1), LANES))
        to = _vector_at(builder, gradient)
        builder.store(builder.select(kept, builder.load(to, align=4), ZERO), to, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@exact_kernel
def bias_relu(y, bias, bits):
    """y[r] = max(y[r] + bias, 0); y (rows, cols), bias (cols,) float32; bits: (rows, 4 * bits_width(cols)) uint8, of which
    those for columns are written."""
    rows, cols = y.shape
    whole = cols - cols % LANES
    first = bias.ctypes.data
    for r in range(rows):
        row, to = y[r], bits[r]
        at, mask = row.ctypes.data, to.ctypes.data
        for j in range(0, whole, LANES):
            _bias_relu_vector(at + 4 * j, first + 4 * j, mask + j // 8)
        for j in range(whole, cols):
            value = row[j] + bias[j]
            row[j] = 0 if value < 0 else value
            if j % 8 == 0:
                to[j // 8] = 0
            to[j // 8] |= (row[j] > 0) << (j % 8)


@exact_kernel
def relu_backward(bits, gradient):
    """gradient[r, j] = 0 where y[r, j] was not above 0; shapes as in `bias_relu`."""
    rows, cols = gradient.shape
    whole = cols - cols % LANES
    for r in range(rows):
        row, of = gradient[r], bits[r]
        at, mask = row.ctypes.data, of.ctypes.data
        for j in range(0, whole, LANES):
            _relu_backward_vector(mask + j // 8, at + 4 * j)
        for j in range(whole, cols):
            if (of[j // 8] >> (j % 8)) & 1 == 0:
                row[j] = 0
