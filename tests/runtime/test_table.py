"""The state-keyed table against a dict, through many random operations."""

import numpy as np
import pytest
from numba import njit

from ampnet.runtime import table
from ampnet.runtime.memory import allocate
from ampnet.runtime.message import MESSAGE_DTYPE
from ampnet.runtime.records import NODE_DTYPE


@njit
def put(node, message, value):
    return table.put(node, message, value)


@njit
def get(node, message):
    return table.get(node, message)


@njit
def take(node, message):
    return table.take(node, message)


@njit
def get_or_put(node, message, value, other):
    found, entry = table.get_or_put(node, message, value)
    if found != 0:
        table.replace(entry, other)
    return found


@njit
def forget(node):
    table.clear(node)


class Table:
    def __init__(self):
        self.node, self.message = allocate(NODE_DTYPE), allocate(MESSAGE_DTYPE)

    def call(self, function, state, *value):
        self.message["state"][0] = state
        return function(self.node.ctypes.data, self.message.ctypes.data, *value)

    def __len__(self):
        return int(self.node["used"][0])

    def __del__(self):
        forget(self.node.ctypes.data)


@pytest.mark.parametrize("spread", [2, 5, 40])
def test_it_behaves_like_a_dict(spread):
    rng = np.random.default_rng(spread)
    mine, expected = Table(), {}
    for _ in range(20_000):
        state = tuple(int(x) for x in rng.integers(0, spread, 3)) + (0,) * 5
        what = rng.integers(4)
        if what == 0:
            value = int(rng.integers(1, 2**40))
            assert mine.call(put, state, value) == (state not in expected)
            expected.setdefault(state, value)
        elif what == 1:
            assert mine.call(get, state) == expected.get(state, 0)
        elif what == 2:
            value, other = (int(x) for x in rng.integers(1, 2**40, 2))
            assert mine.call(get_or_put, state, value, other) == expected.get(state, 0)
            expected[state] = other if state in expected else value
        else:
            assert mine.call(take, state) == expected.pop(state, 0)
        assert len(mine) == len(expected)
    for state, value in expected.items():
        assert mine.call(take, state) == value
    assert len(mine) == 0


def test_states_that_differ_in_one_field_only_are_different():
    mine = Table()
    for field in range(8):
        for value in (1, 2**31 - 1, -1):
            state = np.zeros(8, np.int32)
            state[field] = value
            assert mine.call(put, state, 1 + field)
    assert len(mine) == 24


def test_it_grows_without_a_fixed_maximum():
    mine = Table()
    for i in range(100_000):
        mine.call(put, (i, i % 7, 0, 0, 0, 0, 0, 0), i + 1)
    assert len(mine) == 100_000
    assert all(mine.call(take, (i, i % 7, 0, 0, 0, 0, 0, 0)) == i + 1 for i in range(99_999, -1, -1))
