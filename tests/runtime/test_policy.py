import numpy as np
import pytest
from numba import njit

from ampnet.runtime import policy


@njit
def choose(ready):
    return policy.choose(ready, len(ready) // 2)


@njit
def urgency(ready, in_loop):
    return policy.urgency(ready, in_loop)


@njit
def ready_rows(rows, first, limit):
    return policy.ready_rows(rows, first, limit)


@pytest.mark.parametrize("backward, forward, expected", [
    ([0, 0, 0], [0, 0, 0], -1),
    ([0, 24, 0], [99, 99, 99], 1),  # backward before forward
    ([0, 9, 0], [9, 9, 9], 1),
    ([0, 3, 0], [2, 4, 4], 5),     # but not on few rows while forward has more
    ([3, 5, 4], [0, 0, 0], 1),     # the most rows
    ([0, 0, 0], [3, 5, 4], 4),
    ([2, 2, 2], [0, 0, 0], 0),     # equals: nearest to the end, backward
    ([0, 0, 0], [2, 2, 0], 4),     # and forward
])
def test_choice(backward, forward, expected):
    assert choose(np.array(backward + forward, np.int64)) == expected


@pytest.mark.parametrize("rows, first, limit, expected", [(5, 1, 128, 5), (700, 1, 128, 128), (700, 100, 128, 100),
                                                          (700, 100, 250, 200), (500, 500, 128, 500), (3, 3, 1, 3)])
def test_rows_one_operation_can_take(rows, first, limit, expected):
    assert ready_rows(rows, first, limit) == expected


def test_few_rows_of_loops_are_more_urgent_than_few_others_and_less_than_many():
    few = [urgency(rows, False) for rows in range(policy.ENOUGH)]
    of_loops = [urgency(rows, True) for rows in range(1, policy.ENOUGH)]
    many = [urgency(rows, False) for rows in range(policy.ENOUGH, 200)]
    assert few == sorted(few) and of_loops == sorted(of_loops) and many == sorted(many)
    assert few[0] == urgency(0, True) == 0 and few[-1] < of_loops[0] and of_loops[-1] < many[0]
    assert many == [urgency(rows, True) for rows in range(policy.ENOUGH, 200)]


@pytest.mark.parametrize("backward, forward, expected", [
    ([(11, False), (1, True)], [(0, False), (0, False)], 1),
    ([(11, False), (0, True)], [(0, False), (1, True)], 3),
    ([(12, False), (3, True)], [(0, False), (11, True)], 0),
    ([(3, False), (2, False)], [(0, False), (4, False)], 3),
])
def test_choice_among_urgent_ones(backward, forward, expected):
    assert choose(np.array([urgency(*pair) for pair in backward + forward], np.int64)) == expected
