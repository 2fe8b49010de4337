"""What cores can do at most: fused multiply-adds that never leave the registers.

    python -m benchmarks.peak [--threads N]

Twelve independent chains of vectors, more than two units with a latency of five cycles can have under way, in as many registers
as AVX2 has left beside the operands. Chains of 8 and of 16 floats are tried, and the faster ones are the peak.
"""

import argparse
from functools import cache
from threading import Thread
from time import perf_counter

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

CHAINS, STEPS = 12, 1 << 20
LANES = (8, 16)
I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


def measure(threads=1, seconds=0.2):
    """GFLOP/s of so many threads together."""
    loop = _compiled(fastest_lanes())
    if threads == 1:
        return _rate(loop, fastest_lanes(), seconds)
    rates = []
    workers = [Thread(target=lambda: rates.append(_rate(loop, fastest_lanes(), seconds))) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(rates)


@cache
def fastest_lanes():
    """Floats a vector with which this machine does most."""
    tries = [(_rate(_compiled(lanes), lanes, 0.05), lanes) for _ in range(3) for lanes in LANES]
    return max(tries)[1]


def _rate(loop, lanes, seconds):
    """GFLOP/s of this thread, in calls of some milliseconds that hold no lock."""
    calls, started = 0, perf_counter()
    while perf_counter() - started < seconds:
        loop(STEPS, 0.999, 0.001)
        calls += 1
    return 2 * calls * STEPS * CHAINS * lanes / (perf_counter() - started) / 1e9


@cache
def _compiled(lanes):
    chains = _chains(lanes)

    @njit(types.float32(types.int64, types.float32, types.float32), nogil=True)
    def loop(steps, factor, term):
        return chains(steps, factor, term)

    return loop


def _chains(lanes):
    """sum[i] = sum[i] * factor + term, `steps` times, for all chains i; returns something that depends on every sum."""
    vector = ir.VectorType(F32, lanes)

    def splat(builder, scalar):
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(I32, 0))
        return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))

    @intrinsic
    def run(context, steps, factor, term):
        def generate(context, builder, signature, arguments):
            factor, term = (splat(builder, scalar) for scalar in arguments[1:])
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f32")
            before, again, after = builder.block, builder.append_basic_block("again"), builder.append_basic_block("after")
            builder.branch(again)
            builder.position_at_end(again)
            step, sums = builder.phi(I64), [builder.phi(vector) for _ in range(CHAINS)]
            new = [builder.call(fma, [total, factor, term]) for total in sums]
            for chain, total in enumerate(sums):   # from different values, or they could be computed as one
                total.add_incoming(ir.Constant(vector, [float(chain)] * lanes), before)
                total.add_incoming(new[chain], again)
            following = builder.add(step, ir.Constant(I64, 1))
            step.add_incoming(ir.Constant(I64, 0), before)
            step.add_incoming(following, again)
            builder.cbranch(builder.icmp_signed("<", following, arguments[0]), again, after)
            builder.position_at_end(after)
            everything = new[0]
            for total in new[1:]:
                everything = builder.fadd(everything, total)
            return builder.extract_element(everything, ir.Constant(I32, 0))

        return types.float32(types.int64, types.float32, types.float32), generate

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(f"{measure(options.threads, 1.0):.1f} GFLOP/s, float32, {options.threads} thread(s)")


if __name__ == "__main__":
    main()
