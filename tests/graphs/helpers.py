"""Small data and comparisons that the graph tests share."""

import numpy as np

from ampnet.datasets import Column, Instances
from ampnet.graphs import Machine
from ampnet.testing import Reference, check_drained
from tests.naive import distance


def ragged(rng, lengths, width, name):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Column(rng.standard_normal((offsets[-1], width)).astype(np.float32), offsets, name=name)


def sequences(instances, width=3, seed=0, longest=5, target=2):
    """Instances of 1 to `longest` rows: `x`, `row_target` (a row each), `target` (one row an instance)."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, instances)
    return Instances({
        "x": ragged(rng, lengths, width, "x"),
        "row_target": ragged(rng, lengths, target, "row_target"),
        "target": ragged(rng, np.ones(instances, int), target, "target"),
    })


def gradients_of(graph, instances, workers=1, keys=1, key=0, **options):
    """Summed gradients of one pass without updates, after checking that nothing was left behind."""
    machine = Machine(graph, workers, **options)
    machine.optimizer("sgd", 0.1)
    for node in graph.nodes:
        for parameter in node.parameters.values():
            parameter.gradient[...] = 0
    run = machine.run(instances, max_active_keys=keys, key=key)
    machine.gather_held()
    check_drained(machine, run)
    gradients = {name: p.gradient.copy() for name, p in graph.named_parameters().items()}
    for node in graph.nodes:
        for name, parameter in node.parameters.items():
            if node.original is not None:
                gradients[f"{node.original.name}.{name}"] += parameter.gradient
    return gradients, run


def assert_close(got, expected, limit=1e-5):
    for name, value in expected.items():
        if np.linalg.norm(value) < 1e-6:   # nothing reached this parameter
            assert np.linalg.norm(got[name]) < 1e-5, name
        else:
            assert distance(got[name], value) < limit, (name, distance(got[name], value))


def assert_equals_reference(graph, instances, workers=1, keys=1, key=0, limit=1e-5, **options):
    reference = Reference(graph, key).run(instances)
    got, run = gradients_of(graph, instances, workers, keys, key, **options)
    assert_close(got, reference.gradients, limit)
    assert run.loss.sum() == np.float64(run.loss.sum())
    np.testing.assert_allclose(run.loss.sum(), reference.loss, rtol=1e-5, atol=1e-6)
    assert run.targets.sum() == reference.targets
    assert run.messages == sum(reference.received.values())
    return run
