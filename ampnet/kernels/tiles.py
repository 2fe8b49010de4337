"""Tiles of matrix products, and other pieces of vector code, written as LLVM IR.

A tile of a few rows x a few vectors of LANES floats stays in registers for its whole inner loop; its last vector may be a
short one, of half as many. Rows of X and Y of a product are found by their addresses in tables, as `gemm` explains. Of the last
vector of a tile that is cut only the first `width` elements, 1 to all, are touched.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .processor import has_wide_vectors

LANES = 16 if has_wide_vectors() else 8
SHORT = LANES // 2    # of a short vector, which takes half the time where vectors of LANES are worked on in halves
COLUMNS = 2 * LANES   # of most tiles
LINES = COLUMNS // 16   # cache lines they are
X_COLUMNS, D_COLUMNS = 6, COLUMNS   # of a panel of rows that were put aside, see outer.py
BLOCK = 8   # rows and columns that are transposed at a time

I1, I32, I64, F32 = ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR, SHORT_VECTOR, BLOCK_ROW = (ir.VectorType(F32, lanes) for lanes in (LANES, SHORT, BLOCK))
PIECES = tuple(lanes for lanes in (16, 8, 4, 2, 1) if lanes <= LANES)

# Distance of the rows that are shuffled with one another, and the elements of both that the first and the second get.
TRANSPOSING = ((1, ((0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15))),
               (2, ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))),
               (4, ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))))
ROWS_AFTER_TRANSPOSING = (0, 2, 1, 3, 4, 6, 5, 7)


class Emitter:
    """Writes the IR of tiles. width: lanes of their last vectors, of type `kind`, if these are cut."""

    def __init__(self, builder, width=None, kind=VECTOR):
        self.builder, self.width = builder, width
        if width is not None:
            count = ir.VectorType(I32, kind.count)   # as wide as floats, which masked loads want
            self.mask = builder.icmp_signed("<", ir.Constant(count, list(range(kind.count))),
                                            self.splat(builder.trunc(width, I32), count))

    def splat(self, scalar, kind=VECTOR):
        b = self.builder
        undefined = ir.Constant(kind, ir.Undefined)
        one = b.insert_element(undefined, scalar, ir.Constant(I32, 0))
        return b.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))

    def pointer(self, address):
        return self.builder.inttoptr(address, F32.as_pointer())

    def element(self, pointer, index):
        return self.builder.gep(pointer, [index])

    def address_at(self, table, index):
        """The `index`-th address of a table of row addresses."""
        b = self.builder
        return b.load(b.gep(b.inttoptr(table, I64.as_pointer()), [index]))

    def load(self, pointer, cut=False, kind=VECTOR):
        b = self.builder
        at = b.bitcast(pointer, kind.as_pointer())
        if not cut:
            return b.load(at, align=4)
        function = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(kind, [kind.as_pointer(), I32, self.mask.type, kind]),
            f"llvm.masked.load.v{kind.count}f32.p0")
        return b.call(function, [at, ir.Constant(I32, 4), self.mask, zeros(kind)])

    def store(self, value, pointer, cut=False):
        """A vector that is cut by a mask, or without AVX-512 in pieces: its masked stores take some processors 40 steps."""
        b = self.builder
        if not cut:
            b.store(value, b.bitcast(pointer, value.type.as_pointer()), align=4)
            return
        if LANES == 16:
            kind = value.type
            function = cgutils.get_or_insert_function(
                b.module, ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), I32, self.mask.type]),
                f"llvm.masked.store.v{kind.count}f32.p0")
            b.call(function, [value, b.bitcast(pointer, kind.as_pointer()), ir.Constant(I32, 4), self.mask])
        else:
            self.store_in_pieces(value, pointer)

    def store_in_pieces(self, value, pointer):
        """A vector that is cut, without touching what lies behind it: reading that again would wait for a masked store."""
        b = self.builder
        for lanes in (lanes for lanes in PIECES if lanes <= value.type.count):
            piece, rest = self._halves(value, lanes)
            part = b.and_(self.width, ir.Constant(I64, lanes))
            is_there = b.icmp_signed("!=", part, ir.Constant(I64, 0))
            with b.if_then(is_there):
                b.store(piece, b.bitcast(pointer, piece.type.as_pointer()), align=4)
            if lanes > 1:
                value, pointer = b.select(is_there, rest, piece), self.element(pointer, part)

    def _halves(self, value, lanes):
        """The first `lanes` lanes of a vector, and as many after these; where there are no more the same again."""
        return [self.builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(I32, lanes), list(range(at, at + lanes))))
                for at in (0, lanes)]

    def prefetch(self, pointer):
        """Ask for a cache line that will be read soon; one beyond the array is harmless."""
        b = self.builder
        byte = ir.IntType(8).as_pointer()
        function = cgutils.get_or_insert_function(
            b.module, ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32]), "llvm.prefetch.p0")
        b.call(function, [b.bitcast(pointer, byte), *(ir.Constant(I32, n) for n in (0, 3, 1))])

    def fma(self, a, x, y):
        b = self.builder
        kind = y.type
        function = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.v{kind.count}f32")
        return b.call(function, [a if kind == VECTOR else self._halves(a, kind.count)[0], x, y])


def zeros(kind):
    return ir.Constant(kind, [0.0] * kind.count)


def _accumulate(emit, steps, outputs, columns, accumulate, scalars_and_vectors):
    """outputs[r][v] = (old value or 0) + sum over k < steps of scalar[r](k) * vector[v](k), all in registers.

    columns: for each v (whether the vector is cut, its type); `steps` must be at least 1.
    """
    b = emit.builder
    blocks = {name: b.append_basic_block(name) for name in ("fresh", "resume", "inner", "finish")}
    b.cbranch(b.icmp_signed("!=", accumulate, ir.Constant(I64, 0)), blocks["resume"], blocks["fresh"])
    b.position_at_end(blocks["fresh"])
    b.branch(blocks["inner"])
    b.position_at_end(blocks["resume"])
    old = [[emit.load(pointer, *column) for pointer, column in zip(row, columns, strict=True)] for row in outputs]
    b.branch(blocks["inner"])

    b.position_at_end(blocks["inner"])
    k = b.phi(I64)
    sums = [[b.phi(kind) for _, kind in columns] for row in outputs]
    scalars, vectors = scalars_and_vectors(k)
    new = [[emit.fma(s, v, total) for v, total in zip(vectors, row, strict=True)]
           for s, row in zip(scalars, sums, strict=True)]
    following = b.add(k, ir.Constant(I64, 1))
    for value, start, again in [(k, (ir.Constant(I64, 0),) * 2, following),
                                *((s, (zeros(s.type), o), n) for ss, oo, nn in zip(sums, old, new, strict=True)
                                  for s, o, n in zip(ss, oo, nn, strict=True))]:
        value.add_incoming(start[0], blocks["fresh"])
        value.add_incoming(start[1], blocks["resume"])
        value.add_incoming(again, blocks["inner"])
    b.cbranch(b.icmp_signed("<", following, steps), blocks["inner"], blocks["finish"])

    b.position_at_end(blocks["finish"])
    for values, row in zip(new, outputs, strict=True):
        for value, pointer, (cut, _) in zip(values, row, columns, strict=True):
            emit.store(value, pointer, cut)


def _columns(vectors, cut, short):
    """For each vector of a tile whether it is cut, and its type."""
    last = vectors - 1
    return [(cut and v == last, SHORT_VECTOR if short and v == last else VECTOR) for v in range(vectors)]


def switch(builder, count, choices, generate):
    """generate(choice) for the one of a tuple of whole numbers that `count` is."""
    after = builder.append_basic_block("after")
    switch = builder.switch(count, after)
    for choice in choices:
        block = builder.append_basic_block("choice")
        switch.add_case(ir.Constant(I64, choice), block)
        builder.position_at_end(block)
        generate(choice)
        builder.branch(after)
    builder.position_at_end(after)


def product_tile(rows, vectors, cut=False, short=False):
    """Y[i:i+count, o:o+LANES*vectors] (+)= X[i:i+count, k:k+steps] @ W[k:k+steps, o:...].

    `count`: one of the tuple `rows`; `x`, `y`: places in the tables of row addresses; `first`: k; `w`: address of W[k, o];
    `column`: o; `extra`: the width of the vector that is cut, or else, of more than two vectors, elements of W from a pair of
    them to the next.
    """
    columns = _columns(vectors, cut, short)

    @intrinsic
    def tile(context, count, x, first, w, stride, y, column, steps, accumulate, extra):
        signature = types.void(*[types.int64] * 10)

        def generate(context, builder, signature, arguments):
            count, x, first, w, stride, y, column, steps, accumulate, extra = arguments
            emit = Emitter(builder, *((extra, columns[-1][1]) if cut else ()))
            w_pointer, apart = emit.pointer(w), ir.Constant(I64, COLUMNS) if cut else extra
            pairs = [builder.mul(apart, ir.Constant(I64, n)) if n else ir.Constant(I64, 0) for n in range((vectors + 1) // 2)]
            places = [builder.add(pairs[v // 2], ir.Constant(I64, LANES * (v % 2))) for v in range(vectors)]

            def emit_rows(rows):
                x_rows = [emit.element(emit.pointer(emit.address_at(x, ir.Constant(I64, r))), first) for r in range(rows)]
                outputs = []
                for r in range(rows):
                    row = emit.element(emit.pointer(emit.address_at(y, ir.Constant(I64, r))), column)
                    outputs.append([emit.element(row, ir.Constant(I64, LANES * v)) for v in range(vectors)])

                def step(k):
                    row = emit.element(w_pointer, builder.mul(k, stride))
                    loaded = [emit.load(emit.element(row, place), *column)
                              for place, column in zip(places, columns, strict=True)]
                    return [emit.splat(builder.load(emit.element(p, k))) for p in x_rows], loaded

                _accumulate(emit, steps, outputs, columns, accumulate, step)

            switch(builder, count, rows, emit_rows)
            return context.get_dummy_value()

        return signature, generate

    return tile


def outer_tile(rows, vectors, cut=False, short=False):
    """G[i:i+count, o:o+LANES*vectors] (+)= sum over k of X[k, i:i+count] (outer) D[k, o:...], X and D in panels.

    `count`: one of the tuple `rows`; `x`, `d`, `g`: addresses of X[0, i], D[0, o], G[i, o]; `stride`: elements from a row of G
    to the next.
    """
    columns = _columns(vectors, cut, short)

    @intrinsic
    def tile(context, count, x, d, g, stride, steps, accumulate, width):
        signature = types.void(*[types.int64] * 8)

        def generate(context, builder, signature, arguments):
            count, x, d, g, stride, steps, accumulate, width = arguments
            emit = Emitter(builder, *((width, columns[-1][1]) if cut else ()))

            def emit_rows(rows):
                outputs = []
                for r in range(rows):
                    row = emit.element(emit.pointer(g), builder.mul(stride, ir.Constant(I64, r)))
                    outputs.append([emit.element(row, ir.Constant(I64, LANES * v)) for v in range(vectors)])

                def step(k):
                    x_row = emit.element(emit.pointer(x), builder.mul(k, ir.Constant(I64, X_COLUMNS)))
                    d_row = emit.element(emit.pointer(d), builder.mul(k, ir.Constant(I64, D_COLUMNS)))
                    loaded = [emit.load(emit.element(d_row, ir.Constant(I64, LANES * v)), kind=kind)
                              for v, (_, kind) in enumerate(columns)]
                    scalars = [emit.splat(builder.load(emit.element(x_row, ir.Constant(I64, r)))) for r in range(rows)]
                    return scalars, loaded

                _accumulate(emit, steps, outputs, columns, accumulate, step)

            switch(builder, count, rows, emit_rows)
            return context.get_dummy_value()

        return signature, generate

    return tile


def copy_elements(count):
    """target[:count] = source[:count], by vectors as long as they go; both are addresses."""
    pieces, at = [], 0
    for lanes in PIECES:
        while count - at >= lanes:
            pieces.append((at, ir.VectorType(F32, lanes).as_pointer()))
            at += lanes

    @intrinsic
    def copy(context, source, target):
        def generate(context, builder, signature, arguments):
            emit = Emitter(builder)
            source, target = map(emit.pointer, arguments)
            for at, kind in pieces:
                value, to = (builder.bitcast(emit.element(p, ir.Constant(I64, at)), kind) for p in (source, target))
                builder.store(builder.load(value, align=4), to, align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return copy


@intrinsic
def transpose_tile(context, source, source_stride, target, target_stride):
    """An 8 x 8 block transposed in registers, by shuffles that are one instruction each: of elements and then of pairs within
    halves of 128 bits, last of halves."""
    signature = types.void(*[types.int64] * 4)

    def generate(context, builder, signature, arguments):
        source, source_stride, target, target_stride = arguments
        emit = Emitter(builder)
        at = [[emit.element(emit.pointer(base), builder.mul(stride, ir.Constant(I64, r))) for r in range(BLOCK)]
              for base, stride in ((source, source_stride), (target, target_stride))]
        block = [emit.load(pointer, kind=BLOCK_ROW) for pointer in at[0]]
        for distance, orders in TRANSPOSING:
            for i in range(BLOCK):
                if not i & distance:
                    pair = block[i], block[i + distance]
                    block[i], block[i + distance] = (
                        builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(I32, BLOCK), order)) for order in orders)
        for row, value in zip(ROWS_AFTER_TRANSPOSING, block, strict=True):
            emit.store(value, at[1][row])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def prefetch(context, address):
    """Ask for the cache line at an address."""

    def generate(context, builder, signature, arguments):
        emit = Emitter(builder)
        emit.prefetch(emit.pointer(arguments[0]))
        return context.get_dummy_value()

    return types.void(types.int64), generate
