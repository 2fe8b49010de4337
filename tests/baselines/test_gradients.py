"""A batch in PyTorch has the loss and the gradients that ours has."""

import numpy as np
import pytest

from ampnet.experiments import find
from tests.graphs.helpers import assert_close, gradients_of

torch = pytest.importorskip("torch")

from ampnet.baselines import dense, graph, tree  # noqa: E402
from ampnet.baselines.feeds import GraphFeed, Lists, Trees  # noqa: E402
from ampnet.baselines.objectives import ACCURACY, ERROR  # noqa: E402
from ampnet.baselines.recipes import RECIPES  # noqa: E402
from tests.graphs import torch_models  # noqa: E402

COUNT = 40   # whole batches of images


def results(model, feed, objective, numbers):
    """Loss and gradients, summed over the targets of these instances."""
    inputs, wanted = feed.batch(numbers)
    loss = objective.loss(model(*inputs), wanted) * len(wanted)
    loss.backward()
    gradients = {name: g.to_dense() if g.is_sparse else g for name, g in model.gradients().items()}
    return loss.item(), {name: g.numpy() for name, g in gradients.items()}


def assert_as_ours(run, got, loss, expected):
    np.testing.assert_allclose(loss, run.loss.sum(), rtol=1e-5)
    assert set(got) == set(expected)
    assert_close(got, expected, 2e-5)


def test_loss_and_gradients_of_a_recipes_batch_equal_ours(task, small):
    config, data = small(task, **({"dropout": 0.0} if task == "sentiment" else {}))
    recipe, part = RECIPES[task], data.train.take(COUNT)
    ours = torch_models.with_biases(find(task).build(config.model, data.meta))
    expected, run = gradients_of(ours, part)
    model = recipe.model(ours.parameters, config, data.meta)
    feed = recipe.feed(part, model, data.meta)
    batches, total = feed.in_order(COUNT), 0.0
    assert sum(len(numbers) for numbers in batches) == part.examples
    for numbers in batches:   # several for lists, one of each length; gradients add up
        loss, got = results(model, feed, recipe.objective, numbers)
        total += loss
    in_message = config.model.get("batch", 1)   # a message's loss is a mean over its images
    assert_as_ours(run, {name: gradient / in_message for name, gradient in got.items()}, total, expected)


@pytest.mark.parametrize("form", [dense.Concatenated, dense.Split, dense.Library])
def test_every_form_of_the_recurrent_network_computes_the_same(form):
    lists, ours = torch_models.sequences(), torch_models.with_biases(torch_models.small_rnn())
    expected, run = gradients_of(ours, lists)
    model, feed, total = form(ours.parameters), Lists(lists), 0.0
    for numbers in feed.in_order(7):
        loss, got = results(model, feed, ACCURACY, numbers)
        total += loss
    assert_as_ours(run, got, total, expected)


@pytest.mark.parametrize("form", [tree.Recursive, tree.ByLevel, tree.ByHand])
def test_every_form_of_the_tree_lstm_computes_the_same(form):
    trees, ours = torch_models.trees(), torch_models.small_tree()
    expected, run = gradients_of(ours, trees)
    model = form(ours.parameters)
    loss, got = results(model, Trees(trees, model.prepare), ACCURACY, np.arange(len(trees)))
    assert_as_ours(run, got, loss, expected)


def test_trees_of_a_single_leaf_alone_are_a_batch():
    trees, ours = torch_models.trees((1, 1)), torch_models.small_tree()
    expected, run = gradients_of(ours, trees)
    model = tree.ByHand(ours.parameters)
    loss, got = results(model, Trees(trees, model.prepare), ACCURACY, np.arange(2))
    assert_as_ours(run, got, loss, expected)


@pytest.mark.parametrize("form", [graph.ByType, graph.Gathered, graph.Dense])
@pytest.mark.parametrize("tied", [True, False])
def test_every_form_of_the_graph_network_computes_the_same(form, tied):
    graphs, types = torch_models.graphs(tied), 3 if tied else 6
    ours = torch_models.small_ggnn("regression", types)
    expected, run = gradients_of(ours, graphs)
    model = graph.GraphNetwork(ours.parameters, 4, types, form, graph.Regress)
    loss, got = results(model, GraphFeed(graphs, types, model.prepare, "target"), ERROR, np.arange(len(graphs)))
    assert_as_ours(run, got, loss, expected)


@pytest.mark.parametrize("form", [tree.Recursive, tree.ByLevel, tree.ByHand])
def test_dropout_is_on_embeddings_and_before_the_classifier_and_only_in_training(form, monkeypatch):
    model = form(torch_models.small_tree().parameters, dropout=0.4)
    inputs, labels = Trees(torch_models.trees(), model.prepare).batch(np.arange(6))
    dropped = []

    def drop(values, rate, training):
        assert rate == 0.4
        dropped.append((training, *values.shape))
        return values

    monkeypatch.setattr(tree.F, "dropout", drop)
    for training in (True, False):
        dropped.clear()
        model.train(training)(*inputs)
        *of_leaves, of_nodes = dropped
        assert {shape[0] for shape in dropped} == {training}
        assert sum(rows for _, rows, width in of_leaves) == 24 and {width for *_, width in of_leaves} == {6}
        assert of_nodes == (training, len(labels), 7)


def test_both_forms_by_level_draw_the_same_dropout():
    trees, losses = torch_models.trees(), []
    for form in (tree.ByLevel, tree.ByHand):
        model = form(torch_models.small_tree().parameters, dropout=0.4)
        torch.manual_seed(1)
        losses.append(results(model, Trees(trees, model.prepare), ACCURACY, np.arange(6))[0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
