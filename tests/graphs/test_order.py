"""A recorded run with several workers can be repeated bit for bit; an order that does not fit is refused, and nothing hangs."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampnet.errors import DivergenceError, OperationError
from ampnet.graphs import Machine, rnn, tree_lstm
from ampnet.graphs.replicas import replicate
from ampnet.runtime import order
from ampnet.testing import check_drained
from tests.graphs.trees import random_tree, tree_columns

SUMMED = ("loss", "correct", "gradients", "staleness", "updates", "delays", "calls", "rows", "received_forward")


def small_rnn(replicas=1):
    return replicate(rnn(embedding=5, hidden=7).initialise(0), replicas)


def machine_of(graph, workers, **options):
    machine = Machine(graph, workers, min_update_frequency=5, **options)
    machine.optimizer("adam", 1e-2, schedule="cosine", total=600, warmup=50)
    return machine


def train(make, workers, data, repeat=None, **options):
    """Two runs and what they left: (Runs, parameters)."""
    machine, runs = machine_of(make(), workers, **options), []
    for number in range(2):
        run = machine.run(data, max_active_keys=12, key=number, record=repeat is None,
                          repeat=repeat[number].order if repeat else None)
        machine.flush()
        machine.average_replicas()
        check_drained(machine, run)
        runs.append(run)
    return runs, {name: p.value.copy() for name, p in machine.graph.named_parameters().items()}


@pytest.mark.parametrize("workers, replicas, options", [
    (1, 1, {}), (2, 1, {}), (4, 1, {}), (2, 1, {"coalesce": False}), (3, 3, {}), (2, 2, {"max_batch": 4})])
def test_a_repeated_run_is_the_same_to_the_last_bit(lists, workers, replicas, options):
    def make():
        return small_rnn(replicas)

    recorded, expected = train(make, workers, lists.train, **options)
    for _ in range(2):
        repeated, got = train(make, workers, lists.train, recorded, **options)
        for name, value in expected.items():
            assert (got[name] == value).all(), name
        for a, b in zip(recorded, repeated, strict=True):
            for name in SUMMED:
                assert (getattr(a, name) == getattr(b, name)).all(), name
    assert all(len(run.order) == workers and sum(map(len, run.order)) for run in recorded)


def test_trees_are_repeated_too():
    def make():
        return tree_lstm(11, embedding=4, hidden=6, dropout=0.3).initialise(0)

    rng = np.random.default_rng(0)
    trees = tree_columns([random_tree(rng, n) for n in rng.integers(1, 12, 60)])
    recorded, expected = train(make, 3, trees)
    _, got = train(make, 3, trees, recorded)
    assert all((got[name] == value).all() for name, value in expected.items())


def test_an_evaluation_is_repeated(lists):
    machine = machine_of(small_rnn(), 3)
    run = machine.run(lists.valid, training=False, max_active_keys=20, record=True)
    again = machine.run(lists.valid, training=False, max_active_keys=20, repeat=run.order)
    assert run.loss.sum() == again.loss.sum() and (run.calls == again.calls).all()


def test_a_run_that_is_not_recorded_has_no_order(lists):
    assert machine_of(small_rnn(), 2).run(lists.valid, max_active_keys=3).order == []


def test_a_record_is_small(lists):
    """A byte for each message from another worker, and for each call."""
    run = machine_of(small_rnn(), 2).run(lists.train, max_active_keys=16, record=True)
    assert sum(map(len, run.order)) < 1.5 * run.messages


@pytest.mark.parametrize("damage", ["cut", "other data", "other worker", "empty", "unknown", "nothing to do"])
def test_an_order_that_does_not_fit_is_an_error_and_no_hang(lists, damage):
    machine, data = machine_of(small_rnn(), 2), lists.train.take(40)
    logs = machine.run(data, max_active_keys=8, record=True).order
    machine.flush()
    changed = {
        "cut": [log[:len(log) // 2] for log in logs], "other data": logs, "other worker": logs[::-1],
        "empty": [log[:0] for log in logs], "unknown": [np.full_like(log, 253) for log in logs],
        "nothing to do": [np.append(log[:9], np.uint8([order.SERVE] * 9)) for log in logs]}
    with pytest.raises(OperationError, match="recorded order does not fit|two messages with the same state"):
        machine.run(lists.train.take(60) if damage == "other data" else data, max_active_keys=8, repeat=changed[damage])
    assert machine.engine.blocks_alive() == 0 and machine.engine.messages_waiting() == 0
    run = machine.run(data, max_active_keys=8)   # it works on
    machine.flush()
    check_drained(machine, run)


def test_an_order_of_other_workers_is_refused(lists):
    logs = machine_of(small_rnn(), 2).run(lists.valid, max_active_keys=8, record=True).order
    with pytest.raises(OperationError, match="the order of 2 workers cannot be repeated on 3"):
        machine_of(small_rnn(), 3).run(lists.valid, max_active_keys=8, repeat=logs)


@pytest.fixture(scope="module")
def recorded(lists):
    machine, data = machine_of(small_rnn(), 2), lists.train.take(20)
    return machine, data, machine.run(data, max_active_keys=8, record=True).order


@settings(max_examples=25, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_forged_order_does_no_harm(recorded, changes):
    """It is repeated, or refused; nothing hangs and no memory is touched that is not its own."""
    machine, data, logs = recorded
    forged = [log.copy() for log in logs]
    for worker, where, token in changes:
        forged[worker][int(where * len(forged[worker]))] = token
    with suppress(OperationError, DivergenceError):
        machine.run(data, max_active_keys=8, repeat=forged)
    machine.forget()
    assert machine.engine.blocks_alive() == 0 and machine.engine.messages_waiting() == 0
