"""Trees and graphs of odd shapes: finite, and equal to the reference."""

import numpy as np
import pytest

import ampnet
from ampnet.graphs import ggnn, tree_lstm
from ampnet.testing import check_drained

from .helpers import assert_equals_reference
from .molecules import graph_columns, random_graph
from .trees import left_chain, random_tree, right_chain, tree_columns

ODD_GRAPHS = {
    "one atom": [(1, [])],
    "no edges": [(4, [])],
    "a self-loop": [(3, [(1, 1, 0), (0, 2, 1)])],
    "only a self-loop on one atom": [(1, [(0, 0, 1)])],
    "duplicate edges": [(3, [(0, 1, 0), (0, 1, 0), (0, 1, 1), (2, 1, 0)])],
    "an edge type never used": [(3, [(0, 1, 1), (1, 2, 1)])],
    "all of them": [(1, []), (4, []), (3, [(1, 1, 0)]), (3, [(0, 1, 0), (0, 1, 0)]), (2, [(0, 1, 1)])],
}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("readout", ["select", "regression"])
@pytest.mark.parametrize("form", ["fused", "fine"])
@pytest.mark.parametrize("graphs", ODD_GRAPHS.values(), ids=ODD_GRAPHS)
def test_odd_graphs(graphs, form, readout, tied):
    data = graph_columns(graphs, 2, tied)
    graph = ggnn(2, 2 if tied else 4, 5, 3, readout, form=form).initialise(1)
    run = assert_equals_reference(graph, data, keys=4)
    assert np.isfinite(run.loss).all()


def test_one_step_and_one_edge_type():
    data = graph_columns([(3, [(0, 1, 0)]), (2, [(0, 1, 0), (1, 1, 0)])], 1, True)
    for form in ("fused", "fine"):
        assert_equals_reference(ggnn(2, 1, 4, 1, form=form).initialise(1), data, workers=2, keys=2)


@pytest.mark.parametrize("workers, keys", [(1, 1), (1, 8), (2, 8)])
def test_a_one_word_tree_among_others(workers, keys):
    rng = np.random.default_rng(0)
    data = tree_columns([0, random_tree(rng, 2), random_tree(rng, 9), 0, random_tree(rng, 30)])
    assert_equals_reference(tree_lstm(11, 5, 4, 6).initialise(1), data, workers, keys)


def test_dropout_draws_the_same_for_reference_and_schedule():
    rng = np.random.default_rng(0)
    data = tree_columns([random_tree(rng, leaves) for leaves in (5, 1, 12)])
    for workers, keys in ((1, 1), (2, 3)):
        assert_equals_reference(tree_lstm(11, 5, 8, 6, 0.4).initialise(1), data, workers, keys, key=(3 << 32) + 1)


@pytest.mark.parametrize("chain", [left_chain, right_chain], ids=["left", "right"])
def test_a_chain_of_5000_leaves_trains_draws_and_saves(chain, tmp_path):
    data = tree_columns([chain(5000)])
    graph = tree_lstm(11, 5, 4, 6).initialise(1)
    run = assert_equals_reference(graph, data, limit=1e-4)   # sums of 10,000 float32 numbers that mostly cancel
    assert run.targets.sum() == 9999 and np.isfinite(run.loss).all()
    trainer = ampnet.Trainer(graph, optimizer="adagrad", lr=0.01, min_update_frequency=500)
    history = trainer.fit(data, epochs=2, out=tmp_path / "run")
    assert len(history.epochs) == 2 and history.last["train_loss"] < 1.62   # log 5 = 1.609
    assert "branch" in graph.mermaid()
    graph.save(tmp_path / "weights.safetensors")
    assert tree_lstm(11, 5, 4, 6).load(tmp_path / "weights.safetensors").parameter_count == graph.parameter_count


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_and_trees(seed):
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng, int(n), 3, int(rng.integers(0, 3 * n))) for n in rng.integers(1, 9, 7)]
    workers, keys = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    for form in ("fused", "fine"):
        assert_equals_reference(ggnn(2, 6, 4, 2, "select", form=form).initialise(seed), graph_columns(graphs, 3, False),
                                workers, keys)
    trees = tree_columns([random_tree(rng, int(n)) for n in rng.integers(1, 20, 7)])
    assert_equals_reference(tree_lstm(11, 5, 3, 5).initialise(seed), trees, workers, keys)


def test_evaluation_leaves_nothing_behind():
    rng = np.random.default_rng(0)
    data = tree_columns([random_tree(rng, leaves) for leaves in (5, 1, 12)])
    machine = ampnet.graphs.Machine(tree_lstm(11, 5, 4, 6, 0.5).initialise(1), 2)
    run = machine.run(data, training=False, max_active_keys=3, predict=True)
    check_drained(machine, run)
    predictions = run.predictions["loss"]
    assert predictions.shape == (data["label"].rows, 5) and np.isfinite(predictions).all()
    assert run.correct.sum() == (predictions.argmax(axis=1) == data["label"].values[:, 0]).sum()
