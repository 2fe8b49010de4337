"""Atomic operations on 8-byte words, and the few C functions compiled code needs.

They work on addresses, so that a word can live in any record. All of them compile to single instructions or calls and
can be cached; under NUMBA_DISABLE_JIT they raise.
"""

import time

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I32, I64 = ir.IntType(32), ir.IntType(64)


def _word(builder, address):
    return builder.inttoptr(address, I64.as_pointer())


@intrinsic
def atomic_exchange(context, address, value):
    """Store `value`, return what was there (acquire and release)."""
    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("xchg", _word(builder, arguments[0]), arguments[1], "acq_rel")
    return types.int64(types.int64, types.int64), generate


@intrinsic
def atomic_add(context, address, value):
    """Add `value`, return what was there before (acquire and release)."""
    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _word(builder, arguments[0]), arguments[1], "acq_rel")
    return types.int64(types.int64, types.int64), generate


@intrinsic
def load_acquire(context, address):
    """Read a word; nothing after it is read earlier."""
    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_word(builder, arguments[0]), "acquire", 8)
    return types.int64(types.int64), generate


@intrinsic
def store_release(context, address, value):
    """Write a word; nothing before it is written later."""
    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _word(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()
    return types.void(types.int64, types.int64), generate


@intrinsic
def load(context, address):
    """Plain read of a word."""
    def generate(context, builder, signature, arguments):
        return builder.load(_word(builder, arguments[0]))
    return types.int64(types.int64), generate


@intrinsic
def store(context, address, value):
    """Plain write of a word."""
    def generate(context, builder, signature, arguments):
        builder.store(arguments[1], _word(builder, arguments[0]))
        return context.get_dummy_value()
    return types.void(types.int64, types.int64), generate


def _external(builder, name, result, arguments):
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


@intrinsic
def c_aligned_alloc(context, alignment, size):
    """C's aligned_alloc; 0 when there is no memory."""
    def generate(context, builder, signature, arguments):
        return builder.call(_external(builder, "aligned_alloc", I64, [I64, I64]), arguments)
    return types.int64(types.int64, types.int64), generate


@intrinsic
def c_free(context, address):
    """C's free."""
    def generate(context, builder, signature, arguments):
        builder.call(_external(builder, "free", ir.VoidType(), [I64]), arguments)
        return context.get_dummy_value()
    return types.void(types.int64), generate


@intrinsic
def is_rare(context):
    """Called in a function, keeps that from being compiled into its callers: what they do often stays short."""
    def generate(context, builder, signature, arguments):
        for attribute in ("noinline", "cold"):
            builder.function.attributes.add(attribute)
        return context.get_dummy_value()
    return types.void(), generate


@intrinsic
def yield_core(context):
    """Let another thread have this core."""
    def generate(context, builder, signature, arguments):
        return builder.call(_external(builder, "sched_yield", I32, []), [])
    return types.int32(), generate


@intrinsic
def sleep_microseconds(context, duration):
    """Sleep, at most a second."""
    def generate(context, builder, signature, arguments):
        return builder.call(_external(builder, "usleep", I32, [I32]), [builder.trunc(arguments[0], I32)])
    return types.int32(types.int64), generate


@intrinsic
def nanoseconds(context):
    """The monotonic clock, the same as Python's `time.monotonic_ns`."""
    def generate(context, builder, signature, arguments):
        pair = cgutils.alloca_once(builder, ir.ArrayType(I64, 2))   # in the entry block: a loop must not grow the stack
        clock = ir.Constant(I32, time.CLOCK_MONOTONIC)
        address = builder.ptrtoint(pair, I64)
        builder.call(_external(builder, "clock_gettime", I32, [I32, I64]), [clock, address])
        seconds, rest = (builder.load(builder.gep(pair, [ir.Constant(I32, 0), ir.Constant(I32, i)])) for i in (0, 1))
        return builder.add(builder.mul(seconds, ir.Constant(I64, 1_000_000_000)), rest)
    return types.int64(), generate


@intrinsic
def call_operation(context, function, worker, node, batch, count):
    """Call an operation through its address: int64 operation(worker, node, batch, count)."""
    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(I64, [I64] * 4)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
    return types.int64(*[types.int64] * 5), generate


@intrinsic
def call_state_function(context, function, state, columns, member):
    """Call a compiled state function through its address: int64 function(state, columns, member)."""
    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(I64, [I64] * 3)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
    return types.int64(*[types.int64] * 4), generate
