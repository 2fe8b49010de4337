"""State functions: plain Python over a record of named integers, checked in Python and compiled for the workers.

    def has_next(s): return s.position + 1 < s.length
    def advance(s):  s.position += 1

A state has the field `instance` and up to seven more, all int32; which ones, the graph says.
"""

import inspect
import random
from functools import cache

import numpy as np
from numba import cfunc, njit, types
from numba.core.errors import NumbaError

from ..errors import GraphError
from ..runtime.memory import record
from ..runtime.message import STATE_FIELDS

SAMPLES = 64


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


def try_function(function, fields, what):
    """Call a state function on samples; a missing field or any other exception becomes a GraphError."""
    for state in sample_states(fields):
        shown = repr(state)
        try:
            function(state)
        except Exception as error:
            raise GraphError(f"{what}: state function {describe(function)} fails on {shown}: {error}") from error


def check_inverse(function, inverse, fields, what):
    """Try on samples that `inverse` undoes `function`."""
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


@cache
def compile_function(function, fields):
    """A state function as a C function int64(int64 address of the state), compiled once; raises GraphError."""
    view, compiled = record(state_dtype(fields)), njit(function)
    try:
        if _returns_something(function):
            @cfunc(types.int64(types.int64), nopython=True)
            def call(address):
                return np.int64(compiled(view(address)))
        else:
            @cfunc(types.int64(types.int64), nopython=True)
            def call(address):
                compiled(view(address))
                return 0
    except NumbaError as error:
        reason = str(error).strip().splitlines()[-1]
        raise GraphError(f"state function {describe(function)} cannot be compiled: {reason}") from error
    return call


def _returns_something(function):
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return True
    return "return" in source or "lambda" in source
