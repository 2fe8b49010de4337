"""Matrix products for few rows, register-tiled in LLVM vector IR.

A BLAS packs its operands, which costs more than the product when there are 2 to 50 rows. Here a tile of MR rows x NV
vectors of 8 floats stays in registers for the whole inner loop, and nothing is packed until there are many rows.

The rows of a product need not lie in one matrix: every row is given by its *address*, so the payloads of many messages
are multiplied where they lie and the results are written straight into the payloads of the next messages. Two products
cover forward and backward of a linear layer (X: rows x inner, W: inner x outer, D: rows x outer):

    forward     Y  = X @ W          product(x_rows, W, y_rows)
    backward    dX = D @ W.T        product(d_rows, W.T, dx_rows)     W.T is a copy renewed by `transpose`
                dW += X.T @ D       outer_product(x_rows, d_rows, dW)

Widths that are no multiple of 8 are finished by masked loads and stores, so nothing beyond a row is touched.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import kernel

LANES = 8
NEAR_BYTES, FAR_BYTES = 14 << 10, 24 << 10  # shares of a first cache of 32 KiB
PACK_ROWS, PACK_BYTES = 36, 512 << 10  # from so many rows on, panels of a W of so many bytes are copied together first

I1, I32, I64, F32 = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR = ir.VectorType(F32, LANES)
MASK = ir.VectorType(I1, LANES)


class _Emitter:
    """Writes the IR of one tile; `masked` tiles are one vector wide and touch only its first `width` lanes."""

    def __init__(self, builder, masked, width):
        self.builder = builder
        self.mask = self._mask(width) if masked else None

    def _mask(self, width):
        b = self.builder
        lanes = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
        return b.icmp_signed("<", lanes, self.splat(width, I64))

    def splat(self, scalar, kind=F32):
        b = self.builder
        undefined = ir.Constant(ir.VectorType(kind, LANES), ir.Undefined)
        one = b.insert_element(undefined, scalar, ir.Constant(I32, 0))
        return b.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))

    def pointer(self, address):
        return self.builder.inttoptr(address, F32.as_pointer())

    def element(self, pointer, index):
        return self.builder.gep(pointer, [index])

    def address_at(self, table, index):
        """The `index`-th address of a table of row addresses."""
        b = self.builder
        return b.load(b.gep(b.inttoptr(table, I64.as_pointer()), [index]))

    def load(self, pointer):
        b = self.builder
        at = b.bitcast(pointer, VECTOR.as_pointer())
        if self.mask is None:
            return b.load(at, align=4)
        name, zero = "llvm.masked.load.v8f32.p0", ir.Constant(VECTOR, [0.0] * LANES)
        function = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(VECTOR, [VECTOR.as_pointer(), I32, MASK, VECTOR]), name)
        return b.call(function, [at, ir.Constant(I32, 4), self.mask, zero])

    def store(self, value, pointer):
        b = self.builder
        at = b.bitcast(pointer, VECTOR.as_pointer())
        if self.mask is None:
            b.store(value, at, align=4)
            return
        function = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(ir.VoidType(), [VECTOR, VECTOR.as_pointer(), I32, MASK]),
            "llvm.masked.store.v8f32.p0")
        b.call(function, [value, at, ir.Constant(I32, 4), self.mask])

    def fma(self, a, x, y):
        b = self.builder
        function = cgutils.get_or_insert_function(b.module, ir.FunctionType(VECTOR, [VECTOR] * 3), "llvm.fma.v8f32")
        return b.call(function, [a, x, y])


def _accumulate(emit, steps, outputs, accumulate, scalars_and_vectors):
    """outputs[r][v] = (old value or 0) + sum over k < steps of scalar[r](k) * vector[v](k), all in registers.

    `steps` must be at least 1.
    """
    b = emit.builder
    zero = ir.Constant(VECTOR, [0.0] * LANES)
    blocks = {name: b.append_basic_block(name) for name in ("fresh", "resume", "inner", "finish")}
    b.cbranch(b.icmp_signed("!=", accumulate, ir.Constant(I64, 0)), blocks["resume"], blocks["fresh"])
    b.position_at_end(blocks["fresh"])
    b.branch(blocks["inner"])
    b.position_at_end(blocks["resume"])
    old = [[emit.load(pointer) for pointer in row] for row in outputs]
    b.branch(blocks["inner"])

    b.position_at_end(blocks["inner"])
    k = b.phi(I64)
    sums = [[b.phi(VECTOR) for _ in row] for row in outputs]
    scalars, vectors = scalars_and_vectors(k)
    new = [[emit.fma(s, v, total) for v, total in zip(vectors, row, strict=True)]
           for s, row in zip(scalars, sums, strict=True)]
    following = b.add(k, ir.Constant(I64, 1))
    for value, start, again in [(k, (ir.Constant(I64, 0),) * 2, following),
                                *((s, (zero, o), n) for ss, oo, nn in zip(sums, old, new, strict=True)
                                  for s, o, n in zip(ss, oo, nn, strict=True))]:
        value.add_incoming(start[0], blocks["fresh"])
        value.add_incoming(start[1], blocks["resume"])
        value.add_incoming(again, blocks["inner"])
    b.cbranch(b.icmp_signed("<", following, steps), blocks["inner"], blocks["finish"])

    b.position_at_end(blocks["finish"])
    for values, row in zip(new, outputs, strict=True):
        for value, pointer in zip(values, row, strict=True):
            emit.store(value, pointer)


def _product_tile(rows, vectors, masked=False):
    """Y[i:i+rows, o:o+8*vectors] (+)= X[i:i+rows, :] @ W[:, o:...]; `x`, `y` point into the tables of row addresses."""

    @intrinsic
    def tile(context, x, w, stride, y, column, inner, accumulate, width):
        signature = types.void(*[types.int64] * 8)

        def generate(context, builder, signature, arguments):
            x, w, stride, y, column, inner, accumulate, width = arguments
            emit = _Emitter(builder, masked, width)
            x_rows = [emit.pointer(emit.address_at(x, ir.Constant(I64, r))) for r in range(rows)]
            outputs = []
            for r in range(rows):
                row = emit.element(emit.pointer(emit.address_at(y, ir.Constant(I64, r))), column)
                outputs.append([emit.element(row, ir.Constant(I64, LANES * v)) for v in range(vectors)])
            w_pointer = emit.pointer(w)

            def step(k):
                row = emit.element(w_pointer, builder.mul(k, stride))
                loaded = [emit.load(emit.element(row, ir.Constant(I64, LANES * v))) for v in range(vectors)]
                return [emit.splat(builder.load(emit.element(p, k))) for p in x_rows], loaded

            _accumulate(emit, inner, outputs, accumulate, step)
            return context.get_dummy_value()

        return signature, generate

    return tile


def _outer_tile(rows, vectors, masked=False):
    """G[i:i+rows, o:o+8*vectors] += sum over k of X[k, i:i+rows] (outer) D[k, o:...]; `g` is the address of G[i, o]."""

    @intrinsic
    def tile(context, x, first, d, column, g, stride, steps, width):
        signature = types.void(*[types.int64] * 8)

        def generate(context, builder, signature, arguments):
            x, first, d, column, g, stride, steps, width = arguments
            emit = _Emitter(builder, masked, width)
            outputs = []
            for r in range(rows):
                row = emit.element(emit.pointer(g), builder.mul(stride, ir.Constant(I64, r)))
                outputs.append([emit.element(row, ir.Constant(I64, LANES * v)) for v in range(vectors)])

            def step(k):
                x_row = emit.element(emit.pointer(emit.address_at(x, k)), first)
                d_row = emit.element(emit.pointer(emit.address_at(d, k)), column)
                loaded = [emit.load(emit.element(d_row, ir.Constant(I64, LANES * v))) for v in range(vectors)]
                scalars = [emit.splat(builder.load(emit.element(x_row, ir.Constant(I64, r)))) for r in range(rows)]
                return scalars, loaded

            _accumulate(emit, steps, outputs, ir.Constant(I64, 1), step)
            return context.get_dummy_value()

        return signature, generate

    return tile


@intrinsic
def _transpose_tile(context, source, source_stride, target, target_stride):
    """An 8 x 8 block transposed in registers: three rounds of interleaving row i with row i + 4."""
    signature = types.void(*[types.int64] * 4)

    def generate(context, builder, signature, arguments):
        source, source_stride, target, target_stride = arguments
        emit = _Emitter(builder, False, None)
        at = [[emit.element(emit.pointer(base), builder.mul(stride, ir.Constant(I64, r))) for r in range(LANES)]
              for base, stride in ((source, source_stride), (target, target_stride))]
        block = [emit.load(pointer) for pointer in at[0]]
        low, high = ([i // 2 + start + LANES * (i % 2) for i in range(LANES)] for start in (0, 4))
        for _ in range(3):
            pairs = [(block[i], block[i + 4]) for i in range(4)]
            block = [builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, LANES), order))
                     for a, b in pairs for order in (low, high)]
        for value, pointer in zip(block, at[1], strict=True):
            emit.store(value, pointer)
        return context.get_dummy_value()

    return signature, generate


_p62, _p61, _p6m = _product_tile(6, 2), _product_tile(6, 1), _product_tile(6, 1, True)
_p42, _p41, _p4m = _product_tile(4, 2), _product_tile(4, 1), _product_tile(4, 1, True)
_p24, _p21, _p2m = _product_tile(2, 4), _product_tile(2, 1), _product_tile(2, 1, True)
_p18, _p11, _p1m = _product_tile(1, 8), _product_tile(1, 1), _product_tile(1, 1, True)
_o62, _o61, _o6m = _outer_tile(6, 2), _outer_tile(6, 1), _outer_tile(6, 1, True)
_o12, _o11, _o1m = _outer_tile(1, 2), _outer_tile(1, 1), _outer_tile(1, 1, True)


@kernel
def row_addresses(matrix, table):
    """table[r] = address of row r of a C-contiguous float32 matrix."""
    base, step = matrix.ctypes.data, 4 * matrix.shape[1]
    for r in range(matrix.shape[0]):
        table[r] = base + r * step


@kernel
def _six_rows(x, w, stride, y, rows, inner, column, width, accumulate):
    """Columns [column, column + width), width <= 16, of all whole blocks of six rows; w is W's element [0, column]."""
    for i in range(0, rows - 5, 6):
        xi, yi = x + 8 * i, y + 8 * i
        if width == 16:
            _p62(xi, w, stride, yi, column, inner, accumulate, 0)
        elif width >= 8:
            _p61(xi, w, stride, yi, column, inner, accumulate, 0)
            if width > 8:
                _p6m(xi, w + 32, stride, yi, column + 8, inner, accumulate, width - 8)
        else:
            _p6m(xi, w, stride, yi, column, inner, accumulate, width)


@kernel
def product(x_rows, w, y_rows, rows, accumulate):
    """Y (+)= X @ W.

    x_rows, y_rows: (rows,) int64 addresses of float32 rows of `inner` and `outer` elements; w: (inner, outer) float32;
    accumulate: add to Y (1) or overwrite it (0).
    """
    inner, outer = w.shape
    x, y, w0 = x_rows.ctypes.data, y_rows.ctypes.data, w.ctypes.data
    if inner == 0 or outer == 0:
        return
    whole = rows - rows % 6
    if whole >= PACK_ROWS and 4 * inner * outer >= PACK_BYTES:
        panel = np.empty((inner, 16), np.float32)
        for o in range(0, outer, 16):
            width = min(16, outer - o)
            for k in range(inner):
                if width == 16:
                    for j in range(16):
                        panel[k, j] = w[k, o + j]
                else:
                    for j in range(width):
                        panel[k, j] = w[k, o + j]
            _six_rows(x, panel.ctypes.data, 16, y, whole, inner, o, width, accumulate)
    else:
        chunk = max(6, NEAR_BYTES // (4 * inner) // 6 * 6)   # rows of X that stay in the first cache beside a panel of W
        for first in range(0, whole, chunk):
            count = min(chunk, whole - first)
            for o in range(0, outer, 16):
                _six_rows(x + 8 * first, w0 + 4 * o, outer, y + 8 * first, count, inner, o, min(16, outer - o), accumulate)
    i = whole
    while i < rows:
        xi, yi, o = x + 8 * i, y + 8 * i, 0
        if rows - i >= 4:
            while o + 16 <= outer:
                _p42(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, 0)
                o += 16
            if o + 8 <= outer:
                _p41(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, 0)
                o += 8
            if o < outer:
                _p4m(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, outer - o)
            i += 4
        elif rows - i >= 2:
            while o + 32 <= outer:
                _p24(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, 0)
                o += 32
            while o + 8 <= outer:
                _p21(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, 0)
                o += 8
            if o < outer:
                _p2m(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, outer - o)
            i += 2
        else:
            while o + 64 <= outer:
                _p18(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, 0)
                o += 64
            while o + 8 <= outer:
                _p11(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, 0)
                o += 8
            if o < outer:
                _p1m(xi, w0 + 4 * o, outer, yi, o, inner, accumulate, outer - o)
            i += 1


@kernel
def _outer_panel(x, d, rows, g, outer, first, last, o):
    """Rows [first, last) and columns [o, o + 16), as far as there are any, of G += X.T @ D; g is G's address."""
    i = first
    while i + 6 <= last:
        at = g + 4 * (i * outer + o)
        if o + 16 <= outer:
            _o62(x, i, d, o, at, outer, rows, 0)
        elif o + 8 <= outer:
            _o61(x, i, d, o, at, outer, rows, 0)
            if o + 8 < outer:
                _o6m(x, i, d, o + 8, at + 32, outer, rows, outer - o - 8)
        else:
            _o6m(x, i, d, o, at, outer, rows, outer - o)
        i += 6
    while i < last:
        at = g + 4 * (i * outer + o)
        if o + 16 <= outer:
            _o12(x, i, d, o, at, outer, rows, 0)
        elif o + 8 <= outer:
            _o11(x, i, d, o, at, outer, rows, 0)
            if o + 8 < outer:
                _o1m(x, i, d, o + 8, at + 32, outer, rows, outer - o - 8)
        else:
            _o1m(x, i, d, o, at, outer, rows, outer - o)
        i += 1


@kernel
def outer_product(x_rows, d_rows, rows, g):
    """G += X.T @ D.

    x_rows, d_rows: (rows,) int64 addresses of float32 rows of `inner` and `outer` elements; g: (inner, outer) float32.
    """
    inner, outer = g.shape
    x, d, g0 = x_rows.ctypes.data, d_rows.ctypes.data, g.ctypes.data
    if rows == 0:
        return
    chunk = FAR_BYTES // (4 * outer)   # rows of D that stay in the first cache
    if chunk >= 24:
        pieces = (rows + chunk - 1) // chunk
        chunk = (rows + pieces - 1) // pieces   # equal pieces: a short one would be mostly loading and storing of G
        for start in range(0, rows, chunk):
            count = min(chunk, rows - start)
            for first in range(0, inner, 6):
                for o in range(0, outer, 16):
                    _outer_panel(x + 8 * start, d + 8 * start, count, g0, outer, first, min(inner, first + 6), o)
    else:
        for o in range(0, outer, 16):
            _outer_panel(x, d, rows, g0, outer, 0, inner, o)


@kernel
def transpose(source, target):
    """target = source.T; source (m, n) and target (n, m), both C-contiguous float32."""
    m, n = source.shape
    whole_m, whole_n = m - m % 8, n - n % 8
    s, t = source.ctypes.data, target.ctypes.data
    for j in range(0, whole_n, 8):
        for i in range(0, whole_m, 8):
            _transpose_tile(s + 4 * (i * n + j), n, t + 4 * (j * m + i), m)
    for j in range(whole_n, n):
        for r in range(whole_m):
            target[j, r] = source[r, j]
    for r in range(whole_m, m):
        for j in range(n):
            target[j, r] = source[r, j]


@kernel
def matmul(x, w, y, accumulate):
    """Y (+)= X @ W on whole matrices: x (rows, inner), w (inner, outer), y (rows, outer) float32, C-contiguous."""
    tables = np.empty((2, x.shape[0]), np.int64)
    row_addresses(x, tables[0])
    row_addresses(y, tables[1])
    product(tables[0], w, tables[1], x.shape[0], accumulate)


@kernel
def matmul_transposed(x, d, g):
    """G += X.T @ D on whole matrices: x (rows, inner), d (rows, outer), g (inner, outer) float32, C-contiguous."""
    tables = np.empty((2, x.shape[0]), np.int64)
    row_addresses(x, tables[0])
    row_addresses(d, tables[1])
    outer_product(tables[0], tables[1], x.shape[0], g)
