import numpy as np
import pytest

import ampnet
from ampnet.datasets import Column, Instances
from ampnet.errors import GraphError
from ampnet.graphs import Graph, Linear, Machine, SoftmaxCrossEntropy, ggnn, rnn, tree_lstm
from ampnet.graphs.replicas import average, replicate, spread
from ampnet.runtime import order

from .helpers import assert_equals_reference, gradients_of
from .molecules import graph_columns, random_graph
from .trees import random_tree, tree_columns


def small_rnn():
    return rnn(14, 10, 4, 6)


@pytest.fixture(scope="module")
def lists():
    return ampnet.datasets.load("list-reduction").train.take(40)


def test_parameters_keep_their_names_and_values():
    plain, copied = small_rnn().initialise(3), replicate(small_rnn(), 3).initialise(3)
    assert plain.parameters.keys() == copied.parameters.keys()
    for name, value in plain.parameters.items():
        np.testing.assert_array_equal(value, copied.parameters[name])
    assert plain.parameter_count == copied.parameter_count
    assert len([n for n in copied.nodes if n.kind == "Linear"]) == 6


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("workers", [1, 2])
def test_gradients_are_those_of_the_model_without_replicas(lists, replicas, workers):
    copied = replicate(small_rnn(), replicas).initialise(3)
    assert_equals_reference(copied, lists, workers, 8)
    together, _ = gradients_of(copied, lists)
    alone, _ = gradients_of(small_rnn().initialise(3), lists)
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-4, atol=1e-5)


def test_trees_and_graphs_can_be_replicated():
    rng = np.random.default_rng(0)
    trees = tree_columns([random_tree(rng, int(n)) for n in rng.integers(1, 9, 6)])
    assert_equals_reference(replicate(tree_lstm(11, 5, 3, 5), 2).initialise(1), trees, 2, 4)
    graphs = graph_columns([random_graph(rng, int(n), 2, int(n)) for n in rng.integers(1, 6, 6)], 2, True)
    for form in ("fused", "fine"):
        assert_equals_reference(replicate(ggnn(2, 2, 4, 2, form=form), 2).initialise(1), graphs, 2, 4)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_instance_stays_with_one_copy(lists, workers):
    copied = replicate(small_rnn(), 2).initialise(0)
    machine = Machine(copied, workers, coalesce=False, trace=10_000)
    run = machine.run(lists, max_active_keys=4)
    machine.gather_held()
    copies = {}
    for number, instance in np.concatenate(run.events)[:, [2, 5]]:
        copies.setdefault(instance, set()).add(copied.nodes[number % len(copied.nodes)].replica)
    assert len(copies) == 40 and all(len(found) == 1 for found in copies.values())
    assert {replica for found in copies.values() for replica in found} == {0, 1} or workers == 2


def test_the_next_instance_goes_where_one_has_come_home():
    """While one copy is at a long list, the short ones go to the other; dealt out beforehand, each would have ten."""
    lengths = [200] + 19 * [1]
    rows = np.zeros((sum(lengths), 1), np.float32)
    data = Instances({"tokens": Column(rows, np.concatenate([[0], np.cumsum(lengths)]), name="tokens"),
                      "label": Column(np.zeros(20, np.float32), name="label")})
    copied = replicate(small_rnn(), 2).initialise(0)
    machine = Machine(copied)
    run = machine.run(data, max_active_keys=2)
    machine.gather_held()
    numbers = {n.name: n.number for n in copied.nodes}
    few, many = sorted(run.targets[numbers[name]] for name in ("loss", "loss-2"))
    assert few + many == 20 and few < 5


def test_an_instance_stays_on_one_worker(lists):
    """From the source to the loss and back no message changes workers."""
    copied = replicate(small_rnn(), 2).initialise(0)
    machine = Machine(copied, 2)
    run = machine.run(lists, max_active_keys=8, record=True)
    machine.gather_held()
    for log in run.order:
        at = 0
        while at < len(log):
            assert log[at] >= order.MOST_WORKERS   # no message was taken from a worker
            at += 5 if log[at] == order.START else 1
    assert run.targets.sum() == len(lists)


def test_predictions_of_copies_are_one_array(lists):
    expected = ampnet.predict(small_rnn().initialise(2), lists)
    got = ampnet.predict(replicate(small_rnn(), 3).initialise(2), lists, workers=2)
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-4, atol=1e-5)


def test_copies_go_to_different_workers():
    copied = replicate(small_rnn(), 2)
    placed = {node.name: worker for node, worker in Machine(copied, 2).placement.items()}
    for name in ("embedding", "cell", "classifier", "loop"):
        assert placed[name] == 0 and placed[f"{name}-2"] == 1
    placed = {node.name: worker for node, worker in Machine(copied, 4).placement.items()}
    assert all(placed[name] % 2 != placed[f"{name}-2"] % 2 for name in ("embedding", "cell", "classifier"))


def test_averaging_takes_the_mean_of_values_and_optimizer_state():
    copied = replicate(small_rnn(), 2).initialise(0)
    machine = Machine(copied)
    machine.optimizer("adam", 1e-3)
    by_name = {n.name: n for n in copied.nodes}
    first, second = by_name["cell"].parameters["weight"], by_name["cell-2"].parameters["weight"]
    for i, (a, b) in enumerate(zip(first.arrays, second.arrays, strict=True)):
        a[...], b[...] = i, i + 1
    average(copied)
    for i, (a, b) in enumerate(zip(first.arrays, second.arrays, strict=True)):
        assert (a == i + 0.5).all() and (b == i + 0.5).all()
    first.value[...] = 7
    spread(copied)
    assert (second.value == 7).all()


def test_training_averages_and_the_checkpoint_fits_the_model_without_replicas(lists, tmp_path):
    trainer = ampnet.Trainer(small_rnn(), replicas=2, workers=2, min_update_frequency=10)
    trainer.fit(lists, epochs=2, out=tmp_path)
    nodes = {n.name: n for n in trainer.model.nodes}
    for name in ("embedding", "cell", "classifier"):
        for a, b in zip(nodes[name].parameters["weight"].arrays, nodes[f"{name}-2"].parameters["weight"].arrays, strict=True):
            np.testing.assert_array_equal(a, b)
    plain = small_rnn()
    ampnet.training.checkpoint.load_parameters(tmp_path / "checkpoint.safetensors", plain)
    expected = ampnet.evaluate(trainer.model, lists)
    assert ampnet.evaluate(plain, lists)["loss"] == pytest.approx(expected["loss"], rel=1e-5)


def test_a_resumed_run_with_replicas_equals_a_straight_one(lists, tmp_path):
    options = {"replicas": 2, "min_update_frequency": 10, "seed": 4}
    straight = ampnet.Trainer(small_rnn(), **options)
    straight.fit(lists, epochs=3)
    ampnet.Trainer(small_rnn(), **options).fit(lists, epochs=2, out=tmp_path)
    resumed = ampnet.Trainer(small_rnn(), **options)
    resumed.fit(lists, epochs=3, out=tmp_path, resume=True)
    for name, value in straight.model.parameters.items():
        assert value.tobytes() == resumed.model.parameters[name].tobytes(), name


def test_bad_requests():
    with pytest.raises(GraphError, match="at least 1, got 0"):
        replicate(small_rnn(), 0)
    twice = replicate(replicate(small_rnn(), 2), 2)
    assert twice.replicas == 2 and len(twice.nodes) == len(replicate(small_rnn(), 2).nodes)
    with pytest.raises(GraphError, match="has 2 replicas already"):
        replicate(twice, 3)
    g = Graph()
    SoftmaxCrossEntropy("label")(Linear(3, 3)(g.matrix("x", 3)))
    assert replicate(g, 1).replicas == 1
