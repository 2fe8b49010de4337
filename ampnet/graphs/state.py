"""State functions: plain Python over a record of named integers, checked in Python and compiled for the workers.

    def has_next(s):    return s.position + 1 < s.length
    def advance(s):     s.position += 1
    def climb(s, tree): s.node = tree.parent[s.node]

A state has the field `instance` and up to seven more, all int32; which ones, the graph says. A function with a further
parameter gets the instance's tables, integer columns of the data. Functions of nodes that make many messages of one are
`f(s, i)` or `f(s, i, tables)`, where i numbers the messages.
"""

import inspect
import random
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import cfunc, njit, types
from numba.core.errors import NumbaError, TypingError, UnsupportedBytecodeError
from numba.extending import intrinsic

from ..errors import GraphError
from ..runtime.memory import record
from ..runtime.message import STATE_FIELDS
from .tables import in_python, tables_function

SAMPLES = 64


class Layout(NamedTuple):
    """What state functions can name: the fields of a state, and the tables with the numbers of their columns."""

    fields: tuple[str, ...]
    tables: tuple[tuple[str, int], ...] = ()


class State:
    """A state in plain Python: named integers, and an error for a name that the graph does not have."""

    def __init__(self, fields, values):
        object.__setattr__(self, "_values", dict(zip(fields, values, strict=True)))

    def __getattr__(self, name):
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"the state has no field '{name}'; its fields are: {', '.join(self._values)}") from None

    def __setattr__(self, name, value):
        getattr(self, name)
        self._values[name] = value

    def as_tuple(self):
        return tuple(self._values.values())

    def __repr__(self):
        return "State(" + ", ".join(f"{k}={v}" for k, v in self._values.items()) + ")"


def parse_fields(text):
    """`"position length"` -> ("instance", "position", "length"), checked."""
    names = ("instance", *text.split())
    for name in names:
        if not name.isidentifier():
            raise GraphError(f"state field '{name}' is not a name")
    if len(set(names)) != len(names):
        raise GraphError(f"state fields {' '.join(names)!r}: a name occurs twice ('instance' is always there)")
    if len(names) > STATE_FIELDS:
        raise GraphError(f"a state has at most {STATE_FIELDS - 1} fields besides 'instance', got {len(names) - 1}")
    return names


def parse_tables(text):
    """`"parent left"` -> ("parent", "left"), checked."""
    names = tuple(text.split())
    for name in names:
        if not name.isidentifier() or name.startswith("_"):
            raise GraphError(f"table '{name}' is not a name")
    if len(set(names)) != len(names):
        raise GraphError(f"tables {' '.join(names)!r}: a name occurs twice")
    return names


def sample_states(fields, count=SAMPLES):
    """A fixed set of small states to try functions on."""
    rng = random.Random(0)
    return [State(fields, [rng.choice((0, 1, 2, 3, rng.randrange(100))) for _ in fields]) for _ in range(count)]


def describe(function):
    """Name and place of a function, for messages."""
    try:
        return f"'{function.__name__}' (line {inspect.getsourcelines(function)[1]})"
    except (OSError, TypeError):
        return f"'{getattr(function, '__name__', function)}'"


def takes_tables(function, member=False):
    """Whether a state function wants the tables, behind the state and (member) a number."""
    return len(inspect.signature(function).parameters) > 1 + member


def call_in_python(function, state, tables, member=None):
    """Call a state function as compiled code does; `tables` are those of the state's instance."""
    arguments = [state] if member is None else [state, member]
    return function(*arguments, tables) if takes_tables(function, member is not None) else function(*arguments)


def try_function(function, layout, what, member=False):
    """Call a state function on samples; a missing field or table or any other exception becomes a GraphError."""
    tables = in_python({name: range(SAMPLES) for name, _ in layout.tables})
    wanted = 1 + member
    if not wanted <= len(inspect.signature(function).parameters) <= wanted + 1:
        raise GraphError(f"{what}: state function {describe(function)} must take the state, {'a number, ' * member}"
                         "and at most the tables besides")
    for state in sample_states(layout.fields):
        shown = repr(state)
        try:
            call_in_python(function, state, tables, 0 if member else None)
        except Exception as error:
            raise GraphError(f"{what}: state function {describe(function)} fails on {shown}: {error}") from error


def check_inverse(function, inverse, fields, what):
    """Try on samples that `inverse` undoes `function`; those that read tables can only be tried on data, when it runs."""
    if takes_tables(function) or takes_tables(inverse):
        return
    for state in sample_states(fields):
        before, shown = state.as_tuple(), repr(state)
        function(state)
        inverse(state)
        if state.as_tuple() != before:
            raise GraphError(f"{what}: {describe(inverse)} does not undo {describe(function)}: {shown} came back as {state}")


def state_dtype(fields):
    """The record that a compiled state function sees."""
    return np.dtype({"names": list(fields), "formats": [np.int32] * len(fields),
                     "offsets": [4 * i for i in range(len(fields))], "itemsize": 4 * STATE_FIELDS})


@intrinsic
def _as_integer(context, answer):
    """What a state function returns, as an int64; None is 0."""
    if answer != types.none and not isinstance(answer, types.Number | types.Boolean):
        raise TypingError(f"it returns a {answer}, not a number")

    def generate(context, builder, signature, arguments):
        if answer == types.none:
            return context.get_constant(types.int64, 0)
        return context.cast(builder, arguments[0], answer, types.int64)
    return types.int64(answer), generate


@cache
def compile_function(function, layout, member=False):
    """A state function as a C function int64(int64 state, int64 columns, int64 member), compiled once; raises GraphError."""
    view = record(state_dtype(layout.fields))
    compiled = njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)   # only called from the one below
    try:
        call = _caller(view, compiled, layout, member, takes_tables(function, member))
        return cfunc(types.int64(types.int64, types.int64, types.int64), nopython=True)(call)
    except (NumbaError, UnsupportedBytecodeError) as error:   # the latter is none of the former
        raise GraphError(f"state function {describe(function)} cannot be compiled: {_reason(error)}") from error


def _reason(error):
    """The line of Numba's message that says what is wrong; around it are stages and places."""
    lines = [line.strip() for line in str(error).splitlines()]
    skipped = ("Failed in", "During:", "File ", "<source", "This error", "[")
    return next((line for line in lines if line and not line.startswith(skipped)), type(error).__name__)


def _caller(view, function, layout, member, with_tables):
    """The call of a state function with the arguments it takes."""
    if with_tables:
        tables_of = tables_function(layout.tables)
        if member:
            return lambda state, columns, i: _as_integer(function(view(state), i, tables_of(columns, view(state).instance)))
        return lambda state, columns, i: _as_integer(function(view(state), tables_of(columns, view(state).instance)))
    if member:
        return lambda state, columns, i: _as_integer(function(view(state), i))
    return lambda state, columns, i: _as_integer(function(view(state)))
