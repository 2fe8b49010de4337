"""Gradients of the models: against the reference executor, against PyTorch, against finite differences."""

from functools import partial

import numpy as np
import pytest

from ampnet.datasets import Column, Instances, list_reduction
from ampnet.graphs import Machine, ggnn, mlp, rnn, tree_lstm
from ampnet.testing import Reference
from tests.graphs import torch_models
from tests.graphs.helpers import assert_close, assert_equals_reference, gradients_of
from tests.naive import distance, finite_difference


def assert_equals(got, run, expected):
    """Every gradient, and the loss."""
    assert set(expected) == {"loss", *got}
    assert_close(got, {name: value for name, value in expected.items() if name != "loss"})
    np.testing.assert_allclose(run.loss.sum(), expected["loss"], rtol=1e-5)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("keys", [1, 8])
@pytest.mark.parametrize("kind", torch_models.CASES)
def test_loss_and_gradients_equal_torchs(kind, keys, workers):
    make, data = torch_models.CASES[kind]
    graph, instances = make(), data()
    got, run = gradients_of(graph, instances, workers, keys)
    assert run.instances == len(instances)
    stored = np.load(torch_models.STORED)
    assert_equals(got, run, {name: stored[f"{kind}/{name}"] for name in ("loss", *got)})
    try:
        import torch  # noqa: F401
    except ImportError:
        return
    assert_equals(got, run, torch_models.torch_results(kind, graph, instances))


@pytest.mark.parametrize("workers", [1, 2])
def test_full_size_gradients_equal_the_references_and_torchs(workers):
    """The sizes that are trained: hidden 128; and 784, of which only torch is quick enough."""
    data = list_reduction.load(seed=1, train=60, valid=1).train
    graph = rnn().initialise(1)
    assert assert_equals_reference(graph, data, workers, 1).instances == len(data)
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


NODES = 1, 1, 2, 5, 12, 20


def full_ggnn(readout, tied):
    return ggnn(5, 4 if tied else 8, 100, 4, readout), torch_models.graphs(tied, NODES, annotation=5, kinds=4)


FULL = {
    "lstm": lambda: (rnn(cell="lstm"), list_reduction.load(seed=1, train=40, valid=1).train),
    "tree": lambda: (tree_lstm(40, embedding=50, hidden=150), torch_models.trees((1, 2, 3, 7, 13, 20), vocab=40)),
    **{f"ggnn_{readout}_{'tied' if tied else 'untied'}": partial(full_ggnn, readout, tied)
       for readout in torch_models.READOUTS for tied in (True, False)},
}


@pytest.mark.parametrize(("workers", "keys"), [(1, 1), (2, 8)])
@pytest.mark.parametrize("kind", FULL)
def test_full_size_loss_and_gradients_equal_torchs(kind, workers, keys):
    pytest.importorskip("torch")
    graph, data = FULL[kind]()
    torch_models.with_biases(graph)
    got, run = gradients_of(graph, data, workers, keys)
    assert run.instances == len(data)
    assert_equals(got, run, torch_models.torch_results(kind, graph, data))


def test_the_cells_written_for_torch_are_torchs_own():
    """Our LSTM and GRU are those of torch.nn, whose gates lie in another order."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, h, c = (torch.tensor(rng.standard_normal(n)) for n in (4, 3, 3))

    def parts(gates, rows):
        return [torch.tensor(rng.standard_normal((rows, 3))) for _ in range(gates)]

    def theirs(cell, values, state):
        named = dict(zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), values, strict=True))
        return torch.func.functional_call(cell(4, 3, dtype=torch.float64), named, (x[None], state))

    def rows(*gates):
        return torch.cat([g.T for g in gates])

    (i, o, f, u), (hi, ho, hf, hu), (bi, bo, bf, bu) = parts(4, 4), parts(4, 3), parts(4, 1)
    p = {"cell.weight": torch.cat([i, o, f, u], 1), "cell.recurrent": torch.cat([hi, ho, hf, hu], 1),
         "cell.bias": torch.cat([bi, bo, bf, bu], 1)[0]}
    b = rows(bi, bf, bu, bo)[:, 0]
    expected = theirs(torch.nn.LSTMCell, (rows(i, f, u, o), rows(hi, hf, hu, ho), b, 0 * b), (h[None], c[None]))
    torch.testing.assert_close(torch_models.lstm_cell(p, x, h, c), tuple(y[0] for y in expected))

    (n, r, z), (hr, hz, m), (bn, br, bz, bm) = parts(3, 4), parts(3, 3), parts(4, 1)
    p = {"gru.weight": torch.cat([n, r, z], 1), "gru.recurrent": torch.cat([hr, hz, m], 1),
         "gru.bias": torch.cat([bn, br, bz, bm], 1)[0]}
    biases = rows(br, bz, bn)[:, 0], rows(0 * br, 0 * bz, bm)[:, 0]
    expected = theirs(torch.nn.GRUCell, (rows(r, z, n), rows(hr, hz, m), *biases), h[None])[0]
    torch.testing.assert_close(torch_models.gru_cell(p, x, h), expected)
    assert expected.shape == h.shape


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("keys", [1, 8])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("readout", torch_models.READOUTS)
def test_a_message_an_edge_gives_the_gradients_of_whole_graphs(readout, tied, keys, workers):
    data, types = torch_models.graphs(tied), 3 if tied else 6
    fused = torch_models.small_ggnn(readout, types)
    fine = torch_models.small_ggnn(readout, types, form="fine")
    fine.load_parameters(fused.parameters)
    expected, one = gradients_of(fused, data, workers, keys)
    got, run = gradients_of(fine, data, workers, keys)
    assert run.messages > one.messages
    assert_equals(got, run, {"loss": one.loss.sum(), **expected})


@pytest.mark.parametrize("kind", torch_models.CASES)
def test_gradients_equal_finite_differences_along_random_directions(kind):
    make, data = torch_models.CASES[kind]
    graph, instances = make(), data()
    torch_models.with_biases(graph)   # without, a row may stop at the kinks of all ReLUs of a layer
    rng, size = np.random.default_rng(1), 1e-7 if kind in ("rnn", "mlp") else 1e-5   # short of other kinks

    def loss(name, step):
        total = 0
        for i in range(len(instances)):
            reference = Reference(graph)
            reference.parameters[name] = reference.parameters[name] + step
            total += reference.run(instances, [i]).loss / (len(instances.columns["label"][i]) if kind == "mlp" else 1)
        return total

    got, _ = gradients_of(graph, instances)
    for name, gradient in got.items():
        direction = rng.standard_normal(gradient.shape)
        numeric = (loss(name, size * direction) - loss(name, -size * direction)) / (2 * size)
        if np.linalg.norm(gradient) < 1e-5:   # an edge type that is not used, a bias of all scores
            assert abs(numeric) < 1e-5, name
        else:
            np.testing.assert_allclose((gradient.astype(np.float64) * direction).sum(), numeric, rtol=1e-4, err_msg=name)


def test_parameter_counts_are_those_of_the_formulas():
    for V, E, H, C in ((14, 128, 128, 10), (5, 3, 4, 2)):
        assert rnn(V, C, E, H, cell="lstm").parameter_count == V * E + 4 * H * (E + H) + 4 * H + H * C + C
        assert (tree_lstm(V, C, E, H).parameter_count
                == V * E + 3 * H * E + 3 * H + 10 * H * H + 5 * H + H * C + C)
    for A, K, H in ((5, 4, 100), (2, 3, 7), (4, 1, 4)):
        body = K * (H * H + H) + 3 * H * (H + H) + 4 * H
        for form in ("fused", "fine"):
            assert ggnn(A, K, H, readout="select", form=form).parameter_count == body + (H + A) + 1
            assert ggnn(A, K, H, readout="regression", form=form).parameter_count == (
                body + (H + A) * H + H + 2 * (H * H + H) + H + 1)


@pytest.mark.parametrize("kind", ["rnn", "mlp"])
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
    run = assert_equals_reference(torch_models.small_rnn(), torch_models.sequences(), workers, keys)
    assert run.instances == len(torch_models.sequences())


def test_rows_are_read_through_the_permutation():
    graph, data = torch_models.small_mlp(), torch_models.images()
    index = np.random.default_rng(0).permutation(60)
    expected = Reference(graph).run(data, row_index=index)
    machine = Machine(graph)
    machine.optimizer()
    run = machine.run(data, row_index=index)
    machine.gather_held()
    assert run.targets.sum() == expected.targets
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
