"""Each bug once met, with the test that would have met it."""

import numpy as np
import pytest
from numba import njit

import ampnet
from ampnet.datasets import Column, Instances, list_reduction
from ampnet.errors import OperationError
from ampnet.graphs import Machine, ggnn, mlp, rnn, tree_lstm
from ampnet.runtime.atomics import nanoseconds

from .graphs.molecules import graph_columns, random_graph
from .graphs.trees import random_tree, tree_columns


def test_clearing_after_a_failure_follows_no_stale_links_of_kept_messages():
    """Messages kept as activations still had the link of the waiting list they came from; clearing walked along it."""
    data = list_reduction.load(seed=0, train=300, valid=1).train
    for seed in range(5):
        graph = rnn(embedding=8, hidden=8).initialise(seed)
        machine = Machine(graph, min_update_frequency=10)
        machine.optimizer("sgd", 1e30)
        with pytest.raises(OperationError):
            machine.run(data, max_active_keys=50)
        assert machine.engine.states_kept() == [0] * len(graph.nodes)


@njit
def ask_the_clock(times):
    total = 0
    for _ in range(times):
        total |= nanoseconds()
    return total


def test_reading_the_clock_in_a_loop_does_not_grow_the_stack():
    """Each reading took 16 bytes of stack until the function returned: two workers with one instance crashed in an epoch."""
    assert ask_the_clock(3_000_000) > 0


def test_large_messages_run_depth_first():
    """With eight batches in flight all eight went through the first layer before one came back: SGD diverged on MNIST."""
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 401, 20)
    data = Instances({"pixels": Column(rng.random((400, 12)), offsets, name="pixels"),
                      "label": Column(rng.integers(0, 4, 400), offsets, name="label")})
    machine = Machine(mlp(12, 4, hidden=10, layers=4), min_update_frequency=1, max_batch=20)
    machine.optimizer("sgd", 0.1)
    run = machine.run(data, max_active_keys=8)
    assert run.gradients.max() == 20 and run.staleness.max() == 0


def test_two_checkpoints_of_the_same_state_are_the_same_bytes(tmp_path):
    """safetensors writes several metadata entries in an order that differs from call to call."""
    from ampnet.training import checkpoint
    machine = Machine(rnn(embedding=8, hidden=8).initialise(0))
    machine.optimizer("adam")
    written = set()
    for i in range(10):
        checkpoint.save(tmp_path / f"{i}", machine, {"epoch": 1, "best": 0.5, "seed": 0})
        written.add((tmp_path / f"{i}").read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("name", ["rnn", "lstm", "tree", "ggnn"])
def test_an_evaluation_changes_no_parameter(name):
    """Cells with two inputs answer evaluation messages themselves; those were counted as gradients, and Adam moved on."""
    rng = np.random.default_rng(0)
    lists = ampnet.datasets.load("list-reduction").train.take(60)
    model, data = {
        "rnn": lambda: (rnn(14, 10, 4, 5), lists), "lstm": lambda: (rnn(14, 10, 4, 5, "lstm"), lists),
        "tree": lambda: (tree_lstm(11, 5, 4, 5), tree_columns([random_tree(rng, 7) for _ in range(20)])),
        "ggnn": lambda: (ggnn(2, 2, 4, 2), graph_columns([random_graph(rng, 5, 2, 6) for _ in range(20)], 2, True)),
    }[name]()
    machine = Machine(model.initialise(0), 1, 7)
    machine.optimizer("adam", 1e-2)
    machine.run(data, max_active_keys=4)   # leaves gradients and moments behind
    before = {k: v.copy() for k, v in model.parameters.items()}
    updates = machine.engine.updates().copy()
    for _ in range(3):
        machine.run(data, training=False, max_active_keys=4)
    for k, v in model.parameters.items():
        assert v.tobytes() == before[k].tobytes(), k
    assert (machine.engine.updates() == updates).all()
