"""Products with a transposed matrix, dX (+)= D W^T, straight from W: every element is the dot product of two rows.

A tile takes GROUP rows of W and 2 or 3 rows of D, or one and twice as many. While it goes along them each of its elements is a
vector of partial sums; last these are added across, which costs as much as a few steps, by shuffles of one instruction each.
So where rows are long nothing is lost to a product with a transposed copy, which would have to be made, kept and read.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compile import kernel, kernel_part
from .gemm import FAR_WEIGHT_BYTES
from .tiles import I32, I64, LANES, VECTOR, Emitter, switch, zeros

GROUP = LANES // 2   # rows of W in a tile
LONG = 256           # from so many columns of W on adding across costs nothing,
MIDDLING = 128       # and from so many on less than a transposed copy,
FEW_ROWS = 12        # if the rows are fewer


@kernel_part
def is_straight(inner, outer):
    """Whether products with the transpose of an inner x outer matrix are all made straight from it."""
    return outer >= LONG or 4 * inner * outer >= FAR_WEIGHT_BYTES


@kernel_part
def is_straight_for(rows, inner, outer):
    """Whether that of so many rows is."""
    return is_straight(inner, outer) or (outer >= MIDDLING and rows < FEW_ROWS)


def _add_across(emit, vectors):
    """One vector with the sum of each of these; there are LANES of them, or half as many.

    Sums go up in the same order either way: of 4 neighbours, first of those two apart, then of neighbouring fours.
    """
    builder, count = emit.builder, len(vectors)

    def fours(*lanes):
        """For every four neighbours these lanes of the first vector, and in turn the same of the second one."""
        return [at + lane + half for at in range(0, LANES, 4) for lane, half in lanes]

    def merge(a, b, *orders):
        return builder.fadd(*(builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(order)), order))
                              for order in orders))

    apart = fours((0, 0), (0, LANES), (1, 0), (1, LANES)), fours((2, 0), (2, LANES), (3, 0), (3, LANES))
    pairs = fours((0, 0), (1, 0), (0, LANES), (1, LANES)), fours((2, 0), (3, 0), (2, LANES), (3, LANES))
    even, odd = ([at + lane for at in range(start, 2 * LANES, 8) for lane in range(4)] for start in (0, 4))
    for orders in (apart, pairs):
        vectors = [merge(*vectors[i:i + 2], *orders) for i in range(0, len(vectors), 2)]
    while len(vectors) > 1:
        vectors = [merge(*vectors[i:i + 2], even, odd) for i in range(0, len(vectors), 2)]
    total = vectors[0]
    return total if count == LANES else merge(total, total, even[:count], odd[:count])


def _sums(emit, d_rows, w_rows, whole, length):
    """A vector of partial sums for each row of D and row of W, that of D varying last."""
    builder, start = emit.builder, emit.builder.block
    head, body, end, rest, finish = map(builder.append_basic_block, ("head", "body", "end", "rest", "finish"))

    def add(sums, cut):
        left, new = [emit.load(emit.element(row, k), cut) for row in d_rows], list(sums)
        for g, row in enumerate(w_rows):   # a row at a time: registers are few
            right = emit.load(emit.element(row, k), cut)
            for n in range(g, len(sums), len(w_rows)):
                new[n] = emit.fma(left[n // len(w_rows)], right, sums[n])
        return new

    builder.branch(head)
    builder.position_at_end(head)
    k, sums = builder.phi(I64), [builder.phi(VECTOR) for _ in range(len(d_rows) * len(w_rows))]
    builder.cbranch(builder.icmp_signed("<", k, whole), body, end)
    builder.position_at_end(body)
    more, following = add(sums, False), builder.add(k, ir.Constant(I64, LANES))
    builder.branch(head)
    for phi, first, again in [(k, ir.Constant(I64, 0), following),
                              *((total, zeros(VECTOR), value) for total, value in zip(sums, more, strict=True))]:
        phi.add_incoming(first, start)
        phi.add_incoming(again, body)
    builder.position_at_end(end)
    builder.cbranch(builder.icmp_signed("<", k, length), rest, finish)
    builder.position_at_end(rest)
    more = add(sums, True)
    builder.branch(finish)
    builder.position_at_end(finish)
    complete = [builder.phi(VECTOR) for _ in sums]
    for phi, total, value in zip(complete, sums, more, strict=True):
        phi.add_incoming(total, end)
        phi.add_incoming(value, rest)
    return complete


def _dot_tile(choices, group):
    """dX[r:r+count, i:i+height] (+)= D[r:r+count] W[i:i+height]^T.

    `count`: one of the tuple `choices`; `height`: 1 to `group`; `d`, `dx`: places in the tables of row addresses; `w`: address
    of W[i, 0]; `column`: i; `length`: columns of W.
    """

    @intrinsic
    def tile(context, count, d, w, dx, column, length, height, accumulate):
        signature = types.void(*[types.int64] * 8)

        def generate(context, builder, signature, arguments):
            count, d, w, dx, column, length, height, accumulate = arguments
            whole = builder.and_(length, ir.Constant(I64, -LANES))
            emit, last = Emitter(builder, builder.sub(length, whole)), builder.sub(height, ir.Constant(I64, 1))
            w_rows = []
            for r in range(group):   # of the last one again, where there are no more: their sums are not stored
                row = ir.Constant(I64, r)
                row = builder.select(builder.icmp_signed("<", row, last), row, last)
                w_rows.append(emit.element(emit.pointer(w), builder.mul(length, row)))

            def emit_rows(rows):
                d_rows = [emit.pointer(emit.address_at(d, ir.Constant(I64, r))) for r in range(rows)]
                sums = _sums(emit, d_rows, w_rows, whole, length)
                for r in range(rows):
                    total = _add_across(emit, sums[r * group:(r + 1) * group])
                    edge = Emitter(builder, height, total.type)
                    at = emit.element(emit.pointer(emit.address_at(dx, ir.Constant(I64, r))), column)
                    before = builder.select(builder.icmp_signed("!=", accumulate, ir.Constant(I64, 0)),
                                            edge.load(at, True, total.type), zeros(total.type))
                    edge.store(builder.fadd(before, total), at, True)

            switch(builder, count, choices, emit_rows)
            return context.get_dummy_value()

        return signature, generate

    return tile


_one, _few = _dot_tile((1,), 2 * GROUP), _dot_tile((2, 3), GROUP)


@kernel
def product_turned(d_rows, w, dx_rows, rows, accumulate):
    """dX (+)= D @ W.T.

    d_rows, dx_rows: (rows,) int64 addresses of float32 rows of `outer` and `inner` elements; w: (inner, outer) float32;
    accumulate: add to dX (1) or overwrite it (0). A row's bits do not depend on the others.
    """
    inner, outer = w.shape
    d, dx, w0 = np.int64(d_rows.ctypes.data), np.int64(dx_rows.ctypes.data), np.int64(w.ctypes.data)
    group = 2 * GROUP if rows == 1 else GROUP
    for i in range(0, inner, group):
        height, at, r = min(group, inner - i), w0 + 4 * i * outer, 0
        if rows == 1:
            _one(1, d, at, dx, i, outer, height, accumulate)
            continue
        while r < rows:
            count = 2 if rows - r == 4 else min(3, rows - r)
            _few(count, d + 8 * r, at, dx + 8 * r, i, outer, height, accumulate)
            r += count
