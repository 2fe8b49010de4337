"""Element-wise formulas, written once: for a float32, of which LLVM makes vectors where a loop allows it, and for whole rows.

LLVM's own loops do the last elements of a row one by one, and before every loop test whether arrays overlap: for the gates of a
cell, many short arrays, that costs as much as the formula. `over_rows` makes code with neither.

Products and sums may be fused, so that they round once instead of twice; nothing is reordered. A NaN stays a NaN.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .tiles import F32, I32, I64, LANES, Emitter

FUSED = ("contract",)


class Number:
    """A float32 or a vector of them in the code that is written; its operators write instructions. Constants: numpy.float32."""

    __array_ufunc__ = None   # so that numpy leaves float32 + Number to us

    def __init__(self, builder, value):
        self.builder, self.value = builder, value

    def _like(self, kind, number):
        """A constant of a kind, for each lane."""
        lanes = getattr(self.value.type, "count", None)
        return ir.Constant(kind, number) if lanes is None else ir.Constant(ir.VectorType(kind, lanes), [number] * lanes)

    def _value(self, other):
        return other.value if isinstance(other, Number) else self._like(F32, float(other))

    def _make(self, value):
        return Number(self.builder, value)

    def _call(self, name, *values):
        kind = self.value.type
        lanes = getattr(kind, "count", None)
        suffix = "f32" if lanes is None else f"v{lanes}f32"
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(kind, [kind] * len(values)), f"llvm.{name}.{suffix}")
        return self._make(self.builder.call(function, values))

    def __add__(self, other):
        return self._make(self.builder.fadd(self.value, self._value(other), flags=FUSED))

    def __sub__(self, other):
        return self._make(self.builder.fsub(self.value, self._value(other), flags=FUSED))

    def __rsub__(self, other):
        return self._make(self.builder.fsub(self._value(other), self.value, flags=FUSED))

    def __mul__(self, other):
        return self._make(self.builder.fmul(self.value, self._value(other), flags=FUSED))

    def __truediv__(self, other):
        return self._make(self.builder.fdiv(self.value, self._value(other), flags=FUSED))

    def __rtruediv__(self, other):
        return self._make(self.builder.fdiv(self._value(other), self.value, flags=FUSED))

    __radd__, __rmul__ = __add__, __mul__

    def at_most(self, limit):
        """The smaller of both; a NaN as it is."""
        limit = self._value(limit)
        return self._make(self.builder.select(self.builder.fcmp_ordered(">", self.value, limit), limit, self.value))

    def at_least(self, limit):
        limit = self._value(limit)
        return self._make(self.builder.select(self.builder.fcmp_ordered("<", self.value, limit), limit, self.value))

    def __abs__(self):
        return self._call("fabs", self.value)

    def floor(self):
        return self._call("floor", self.value)

    def with_sign_of(self, other):
        return self._call("copysign", self.value, other.value)

    def low_bits_as_exponent(self):
        """The float whose exponent is what the lowest bits of this one say."""
        whole = self._like(I32, 0).type
        bits = self.builder.shl(self.builder.bitcast(self.value, whole), self._like(I32, 23))
        return self._make(self.builder.bitcast(bits, self.value.type))


def scalar(formula):
    """The formula of one float32, for compiled code."""

    @intrinsic
    def function(context, x):
        def generate(context, builder, signature, arguments):
            return formula(Number(builder, arguments[0])).value

        return types.float32(types.float32), generate

    return function


def over_rows(formula, inputs, outputs):
    """The formula for all elements of rows: function(width, addresses), the latter a tuple of int64.

    inputs: which of the addresses hold the formula's arguments; outputs: which ones take its results, in their order. Rows do
    not overlap, other than being the same.
    """

    @intrinsic
    def function(context, width, addresses):
        def generate(context, builder, signature, arguments):
            width, addresses = arguments
            emit = Emitter(builder, builder.and_(width, ir.Constant(I64, LANES - 1)))
            pointers = [emit.pointer(builder.extract_value(addresses, i)) for i in range(addresses.type.count)]

            def at(i, k):
                return emit.element(pointers[i], k)

            def results(k, cut):
                values = formula(*(Number(builder, emit.load(at(i, k), cut)) for i in inputs))
                return [value.value for value in (values if isinstance(values, tuple) else (values,))]

            whole = builder.and_(width, ir.Constant(I64, -LANES))
            with cgutils.for_range_slice(builder, ir.Constant(I64, 0), whole, ir.Constant(I64, LANES), inc=True) as (k, _):
                for i, value in zip(outputs, results(k, False), strict=True):
                    emit.store(value, at(i, k))
            with builder.if_then(builder.icmp_signed("<", whole, width)):
                for i, value in zip(outputs, results(whole, True), strict=True):
                    emit.store_in_pieces(value, at(i, whole))
            return context.get_dummy_value()

        return types.void(types.int64, addresses), generate

    return function
