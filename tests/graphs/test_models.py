"""Gradients of the models: against the reference executor, against PyTorch, against finite differences."""

import numpy as np
import pytest

from ampnet.datasets import Column, Instances, list_reduction
from ampnet.graphs import Machine, mlp, rnn
from ampnet.testing import Reference
from tests.graphs import torch_models
from tests.graphs.helpers import assert_close, assert_equals_reference, gradients_of
from tests.naive import distance, finite_difference


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", torch_models.CASES)
def test_gradients_equal_torchs(kind, workers):
    make, data = torch_models.CASES[kind]
    graph, instances = make(), data()
    got, _ = gradients_of(graph, instances, workers, keys=1)
    stored = np.load(torch_models.STORED)
    assert_close(got, {name: stored[f"{kind}/{name}"] for name in got})
    try:
        import torch  # noqa: F401
    except ImportError:
        return
    assert_close(got, torch_models.torch_gradients(kind, graph, instances))


@pytest.mark.parametrize("workers", [1, 2])
def test_full_size_gradients_equal_the_references_and_torchs(workers):
    """The sizes that are trained: hidden 128; and 784, of which only torch is quick enough."""
    data = list_reduction.load(seed=1, train=60, valid=1).train
    graph = rnn().initialise(1)
    assert_equals_reference(graph, data, workers, 1)
    rng = np.random.default_rng(0)
    offsets = np.array([0, 100, 200])
    images = Instances({"pixels": Column(rng.random((200, 784)), offsets, name="pixels"),
                        "label": Column(rng.integers(0, 10, 200), offsets, name="label")})
    perceptron = mlp().initialise(1)
    assert_equals_reference(perceptron, images, workers, 1)
    pytest.importorskip("torch")
    for kind, g, d in (("rnn", graph, data), ("mlp", perceptron, images)):
        got, _ = gradients_of(g, d, workers)
        assert_close(got, torch_models.torch_gradients(kind, g, d))


@pytest.mark.parametrize("kind", torch_models.CASES)
def test_the_references_gradients_equal_finite_differences(kind):
    make, data = torch_models.CASES[kind]
    graph, instances = make(), data()
    one = np.array([1])

    def loss(name):
        def function(value):
            reference = Reference(graph)
            reference.parameters[name] = value
            rows = 1 if kind == "rnn" else len(instances.columns["label"][1])
            return reference.run(instances, one).loss / rows
        return function

    exact = Reference(graph).run(instances, one).gradients
    for name, value in graph.parameters.items():
        numeric = finite_difference(loss(name), value.astype(np.float64))
        if np.linalg.norm(numeric) > 0:
            assert distance(exact[name], numeric) < 1e-5, name


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("keys", [1, 7, 100])
def test_any_schedule_gives_the_same_gradients(workers, keys):
    assert_equals_reference(torch_models.small_rnn(), torch_models.sequences(), workers, keys)


def test_rows_are_read_through_the_permutation():
    graph, data = torch_models.small_mlp(), torch_models.images()
    index = np.random.default_rng(0).permutation(60)
    expected = Reference(graph).run(data, row_index=index)
    machine = Machine(graph)
    machine.optimizer()
    run = machine.run(data, row_index=index)
    machine.gather_held()
    np.testing.assert_allclose(run.loss.sum(), expected.loss, rtol=1e-5)
    assert_close({k: p.gradient for k, p in graph.named_parameters().items()}, expected.gradients)


def test_one_synchronous_step_equals_torchs():
    """One instance in flight, an update after every gradient: plain SGD, instance by instance."""
    torch = pytest.importorskip("torch")
    graph, data = torch_models.small_mlp(), torch_models.images()
    reference = torch_models.small_mlp()
    for i in range(len(data)):
        one = Instances({n: Column(c[i], np.array([0, len(c[i])]), name=n)
                         for n, c in data.columns.items()})
        for name, g in torch_models.torch_gradients("mlp", reference, one).items():
            reference.parameters[name][...] -= 0.1 * g
    machine = Machine(graph, min_update_frequency=1)
    machine.optimizer("sgd", 0.1)
    machine.run(data)
    machine.flush()
    assert torch is not None
    for name, value in reference.parameters.items():
        np.testing.assert_allclose(graph.parameters[name], value, rtol=1e-4, atol=1e-6)
