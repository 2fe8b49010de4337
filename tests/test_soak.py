"""Many epochs on more workers than there are cores: the memory stays as it is after the first, and no message is lost.

`AMPNET_SOAK_MINUTES` says for how long the slow one runs.
"""

import os
import time

import numpy as np
import pytest

from ampnet.graphs import (
    Bcast,
    Concat,
    Cond,
    Graph,
    Isu,
    Linear,
    Machine,
    Phi,
    Split,
    SquaredError,
)
from ampnet.testing import check_drained
from tests.graphs.helpers import sequences

MINUTES = float(os.environ.get("AMPNET_SOAK_MINUTES", "10"))
WORKERS, KEYS, WIDTH = 8, 24, 24


def has_next(s):
    return s.position + 1 < s.length


def advance(s):
    s.position += 1


def retreat(s):
    s.position -= 1


def by_instance(s):
    return s.instance % 3


def again(s):
    return s.step < 2


def count_up(s):
    s.step += 1


def count_down(s):
    s.step -= 1


def mixed():
    """Branches, a loop that counts, a recurrence, copies and parts; two losses."""
    g = Graph(state="position length step")
    rows = Linear(3, WIDTH, "relu")(g.rows("x", 3, index="position", count="length"))
    one, two, three = Cond(by_instance, outputs=3)(rows)
    x = Phi()(Linear(WIDTH, WIDTH)(one), Linear(WIDTH, WIDTH, "tanh")(two), Linear(WIDTH, WIDTH, "sigmoid")(three))
    each, on = Bcast()(x)
    SquaredError("row_target", index="position")(Linear(WIDTH, 2)(each))
    a, b = Split(WIDTH // 2, WIDTH // 2)(on)
    loop = Phi()(g.zeros(WIDTH))
    cell = Linear(2 * WIDTH, WIDTH, "tanh")(Concat()(a, Linear(WIDTH // 2, WIDTH // 2)(b), loop))
    more, last = Cond(has_next)(cell)
    loop.close(Isu(advance, retreat)(more))
    counted = Phi()(last)
    more, done = Cond(again)(Linear(WIDTH, WIDTH, "tanh")(counted))
    counted.close(Isu(count_up, count_down)(more))
    SquaredError("target")(Linear(WIDTH, 2)(done))
    return g.initialise(0)


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize("seconds, instances", [
    (4, 300), pytest.param(60 * MINUTES, 5000, marks=[pytest.mark.slow, pytest.mark.timeout(60 * MINUTES + 600)])])
def test_memory_stays_and_no_message_is_lost(seconds, instances):
    machine = Machine(mixed(), WORKERS, min_update_frequency=20)
    machine.optimizer("adam", 1e-4)
    data = sequences(instances, longest=12)
    rng, after_first, epochs, messages = np.random.default_rng(0), None, 0, None
    end = time.monotonic() + seconds
    while epochs < 3 or time.monotonic() < end:
        run = machine.run(data, rng.permutation(instances), max_active_keys=KEYS)
        machine.flush()
        check_drained(machine, run)
        assert run.instances == instances and run.messages == (messages or run.messages)   # the same in whatever order
        messages, epochs = run.messages, epochs + 1
        after_first = after_first or resident()
    grown = resident() / after_first - 1
    assert grown < 0.05, f"{grown:.1%} in {epochs} epochs"
