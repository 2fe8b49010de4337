"""Rows copied, added, summed and looked at as vectors to the last element: LLVM would do most of a narrow row one by one."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import kernel
from .tiles import F32, I64, LANES, PIECES, VECTOR, Emitter, zeros

UNROLLED = 4   # vectors of a row that are copied or added one after the other, where there are so many;
SUMMED = 8     # that are summed at a time


def _along(builder, width, body):
    """body(emit, k, kind) for all of a row of `width` elements, piece by piece: where it starts, and its type.

    Not even masked off may a piece reach into the next row: reading that would wait until it is stored.
    """
    emit, k = Emitter(builder), ir.Constant(I64, 0)
    for vectors in (UNROLLED, 1):
        step = vectors * LANES
        end = builder.and_(width, ir.Constant(I64, -step))
        with cgutils.for_range_slice(builder, k, end, ir.Constant(I64, step), inc=True) as (at, _):
            for v in range(vectors):
                body(emit, builder.add(at, ir.Constant(I64, LANES * v)), VECTOR)
        k = end
    for lanes in PIECES[1:]:
        part = builder.and_(width, ir.Constant(I64, lanes))
        with builder.if_then(builder.icmp_signed("!=", part, ir.Constant(I64, 0))):
            body(emit, k, ir.VectorType(F32, lanes))
        k = builder.add(k, part)


def _row_operation(adds):
    """target[:width] = source[:width], or += if it `adds`; both are addresses."""

    @intrinsic
    def operation(context, source, target, width):
        def generate(context, builder, signature, arguments):
            source, target, width = arguments

            def body(emit, k, kind):
                at = emit.element(emit.pointer(target), k)
                value = emit.load(emit.element(emit.pointer(source), k), kind=kind)
                emit.store(builder.fadd(emit.load(at, kind=kind), value) if adds else value, at)

            _along(builder, width, body)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 3), generate

    return operation


copy_row, add_row = _row_operation(adds=False), _row_operation(adds=True)


@intrinsic
def is_finite_row(context, source, width):
    """1 if all elements are finite, else 0: these times 0 are NaN, and then so is a sum."""

    def generate(context, builder, signature, arguments):
        source, width = arguments
        emit = Emitter(builder, builder.and_(width, ir.Constant(I64, LANES - 1)))
        whole = builder.and_(width, ir.Constant(I64, -LANES))
        total = cgutils.alloca_once_value(builder, zeros(VECTOR))

        def add(k, cut):
            value = emit.load(emit.element(emit.pointer(source), k), cut)
            builder.store(emit.fma(value, zeros(VECTOR), builder.load(total)), total)

        with cgutils.for_range_slice(builder, ir.Constant(I64, 0), whole, ir.Constant(I64, LANES), inc=True) as (k, _):
            add(k, False)
        add(whole, True)
        total = builder.load(total)
        lanes = builder.bitcast(builder.fcmp_unordered("uno", total, total), ir.IntType(LANES))
        return builder.zext(builder.icmp_signed("==", lanes, ir.Constant(ir.IntType(LANES), 0)), I64)

    return types.int64(types.int64, types.int64), generate


def _sum_tile(vectors, cut):
    """target[:] += the sum over rows of LANES * `vectors` of their columns; of the last vector, if `cut`, the first `width`.

    `table`: of row addresses; `column`: where in a row; `target`: an address.
    """

    @intrinsic
    def tile(context, table, rows, column, target, width):
        def generate(context, builder, signature, arguments):
            table, rows, column, target, width = arguments
            emit = Emitter(builder, width)
            cuts = [cut and v == vectors - 1 for v in range(vectors)]

            def places(row):
                return [emit.element(row, ir.Constant(I64, LANES * v)) for v in range(vectors)]

            at = places(emit.pointer(target))
            before, start = [emit.load(*place) for place in zip(at, cuts, strict=True)], builder.block
            head, inside, after = map(builder.append_basic_block, ("head", "inside", "after"))
            builder.branch(head)
            builder.position_at_end(head)
            r, sums = builder.phi(I64), [builder.phi(VECTOR) for _ in at]
            builder.cbranch(builder.icmp_signed("<", r, rows), inside, after)
            builder.position_at_end(inside)
            row = places(emit.element(emit.pointer(emit.address_at(table, r)), column))
            more = [builder.fadd(total, emit.load(*place)) for total, *place in zip(sums, row, cuts, strict=True)]
            for phi, first, again in [(r, ir.Constant(I64, 0), builder.add(r, ir.Constant(I64, 1))),
                                      *zip(sums, before, more, strict=True)]:
                phi.add_incoming(first, start)
                phi.add_incoming(again, inside)
            builder.branch(head)
            builder.position_at_end(after)
            for total, place, is_cut in zip(sums, at, cuts, strict=True):
                emit.store(total, place, is_cut)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    return tile


_several, _one, _last = _sum_tile(SUMMED, cut=False), _sum_tile(1, cut=False), _sum_tile(1, cut=True)


@kernel
def sum_rows_at(rows, count, total):
    """total += the sum of rows, given by the addresses of their float32 elements; total (width,) float32."""
    table, target, at, width = np.int64(rows.ctypes.data), np.int64(total.ctypes.data), 0, len(total)
    while at + SUMMED * LANES <= width:
        _several(table, count, at, target + 4 * at, 0)
        at += SUMMED * LANES
    while at + LANES <= width:
        _one(table, count, at, target + 4 * at, 0)
        at += LANES
    if at < width:
        _last(table, count, at, target + 4 * at, width - at)
