import itertools

import numpy as np
import pytest

import ampnet
from ampnet.errors import SettingError
from ampnet.graphs import Machine, mlp, rnn
from ampnet.graphs.placement import balance, counted_costs, follow, measure


class FakeNode:
    """As much of a node as `balance` looks at."""

    roaming = immediate = False
    worker = original = None
    replica = 0

    def __init__(self, number):
        self.number, self.name = number, f"n{number}"


class FakeGraph:
    replicas = 1

    def __init__(self, count):
        self.nodes = [FakeNode(i) for i in range(count)]


def largest_load(costs, placed, workers):
    return max(sum(c for n, c in costs.items() if placed[n] == w) for w in range(workers))


@pytest.mark.parametrize("seed", range(8))
def test_few_nodes_are_placed_as_well_as_possible(seed):
    rng = np.random.default_rng(seed)
    graph, workers = FakeGraph(6), int(rng.integers(2, 4))
    costs = dict(zip(graph.nodes, rng.random(6), strict=True))
    placed = balance(graph, workers, costs)
    best = min(largest_load(costs, dict(zip(graph.nodes, p, strict=True)), workers)
               for p in itertools.product(range(workers), repeat=6))
    assert largest_load(costs, placed, workers) == pytest.approx(best)


def test_many_nodes_are_placed_within_a_third_of_the_best():
    rng = np.random.default_rng(0)
    graph = FakeGraph(60)
    costs = dict(zip(graph.nodes, rng.random(60), strict=True))
    assert largest_load(costs, balance(graph, 3, costs), 3) <= sum(costs.values()) / 3 * 4 / 3


def test_nodes_that_talk_stay_together_where_the_load_allows():
    graph = FakeGraph(4)
    a, b, c, d = graph.nodes
    placed = balance(graph, 2, dict.fromkeys(graph.nodes, 1.0), {(a, d): 0.1, (b, c): 0.1})
    assert placed[a] == placed[d] != placed[b] == placed[c]


@pytest.mark.parametrize("own", [None, 3])
def test_a_measured_warm_up_changes_nothing(own):
    data = ampnet.datasets.load("list-reduction").train.take(200)
    graph = rnn(14, 10, 8, 8).initialise(1)
    machine = Machine(graph, 1, 20)
    machine.optimizer("adam", 1e-3)
    machine.run(data, max_active_keys=4)
    machine.flush()
    before = {name: [a.copy() for a in p.arrays] for name, p in graph.named_parameters().items()}
    state = np.random.get_state()[1].copy()
    for node in graph.nodes:
        node.min_update_frequency = own
    costs, traffic = measure(lambda trace: Machine(graph, 1, None, trace=trace), data, seconds=0.02)
    for name, parameter in graph.named_parameters().items():
        for a, b in zip(before[name], parameter.arrays, strict=True):
            assert a.tobytes() == b.tobytes()
        assert not parameter.gradient.any() and parameter.record["touched_count"][0] == 0
    assert (np.random.get_state()[1] == state).all()
    assert set(costs) == set(counted_costs(graph)) and all(cost > 0 for cost in costs.values())
    assert all(cost > 0 for cost in traffic.values())


def test_training_is_the_same_with_and_without_the_warm_up():
    data = ampnet.datasets.load("list-reduction").train.take(200)
    trained = []
    for placement in (None, {"embedding": 0, "loop": 0, "cell": 0, "classifier": 0, "loss": 0}):
        trainer = ampnet.Trainer(rnn(14, 10, 8, 8), placement, seed=2)
        if placement is None:
            costs, _ = measure(trainer._trial_machine, data, seconds=0.02)
            assert costs
        trainer.fit(data, epochs=1)
        trained.append({name: value.copy() for name, value in trainer.model.parameters.items()})
    for name, value in trained[0].items():
        assert value.tobytes() == trained[1][name].tobytes()


def test_the_default_placement_uses_all_workers_and_can_be_given_again():
    data = ampnet.datasets.load("list-reduction").train.take(100)
    trainer = ampnet.Trainer(rnn(14, 10, 128, 128), workers=2)
    placement = trainer.place(data)
    assert set(placement.values()) == {0, 1}
    again = ampnet.Trainer(rnn(14, 10, 128, 128), placement, workers=2)
    assert again.place(data) == placement
    assert {n.name: w for n, w in again.machine.placement.items()} == placement


@pytest.mark.parametrize("change, text", [
    (lambda p: p.pop("loss"), "node 'loss' is missing"),
    (lambda p: p.update(loss=2), "'loss' is put on worker 2, expected 0 to 1"),
    (lambda p: p.update(loss="a"), "'loss' is put on worker 'a'"),
    (lambda p: p.update(other=0), "there is no node 'other' to place"),
])
def test_a_wrong_placement(change, text):
    graph = mlp(4, 2, 3, 2)
    names = {n.name: 0 for n in graph.nodes if not n.roaming}
    change(names)
    with pytest.raises(SettingError, match=text):
        follow(graph, 2, names)
