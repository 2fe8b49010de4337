"""A graph that is wired wrongly says what is wrong."""

import numpy as np
import pytest

from ampnet.datasets import Column, Instances
from ampnet.errors import CheckpointError, DataError, GraphError, SettingError
from ampnet.graphs import (
    Bcast,
    Concat,
    Cond,
    Embedding,
    Graph,
    Isu,
    Linear,
    Machine,
    Phi,
    SoftmaxCrossEntropy,
    Split,
    SquaredError,
    mlp,
    rnn,
)


def closed(g, x):
    SquaredError("y")(x)
    return g


def test_a_linear_takes_two_inputs_at_most():
    g = Graph()
    with pytest.raises(GraphError, match="takes 1 or 2 inputs, got 3: put a Concat before it"):
        Linear(3, 1, name="sum")(g.zeros(1), g.zeros(1), g.zeros(1))


def test_dangling_port():
    g = Graph(state="t")
    yes, _ = Cond(lambda s: s.t > 0, name="fork")(g.matrix("x", 3))
    with pytest.raises(GraphError, match=r"dangling port: output 1 of 'fork' \(rows, 3\)"):
        closed(g, yes).check()


@pytest.mark.parametrize("build, texts", [
    (lambda x: Linear(4, 2)(x), ["(rows, 4)", "(rows, 3)"]),
    (lambda x: Linear(9, 2)(x, x.node.graph.zeros(5)), ["(rows, 9)", "(rows, 3) and (rows, 5)"]),
    (lambda x: Phi()(x, x.node.graph.zeros(5)), ["(rows, 3)", "(rows, 5)"]),
    (lambda x: Phi()(x).close(x.node.graph.zeros(7)), ["(rows, 3)", "(rows, 7)"]),
    (lambda x: Split(1, 1)(x), ["(rows, 1 + 1 = 2)", "(rows, 3)"]),
    (lambda x: Embedding(5, 2)(x), ["(rows, 1)", "(rows, 3)"]),
])
def test_shapes_that_do_not_fit_are_both_named(build, texts):
    with pytest.raises(GraphError) as caught:
        build(Graph().matrix("x", 3))
    assert all(text in str(caught.value) for text in texts)


def test_no_loss():
    g = Graph()
    a, b = Cond(lambda s: True)(g.matrix("x", 3))
    loop = Phi()(a, b)
    loop.close(Linear(3, 3)(loop))
    with pytest.raises(GraphError, match="no loss"):
        g.check()


def test_no_source():
    with pytest.raises(GraphError, match="no source"):
        Graph().check()


def test_a_node_that_cannot_be_reached():
    g = Graph()
    closed(g, g.matrix("x", 2))
    island = Phi(name="island")
    g.add(island)
    from ampnet.graphs import Output
    island.outputs = [Output(island, 0, 2)]
    island.connect(Linear(2, 2, name="shore")(island.outputs[0]))
    with pytest.raises(GraphError, match="'island' cannot be reached"):
        g.check()


def up(s):
    s.t += 1


def up_too(s):
    s.t += 2


def wrong_field(s):
    s.steps += 1


def test_an_inverse_that_does_not_undo():
    g = Graph(state="t")
    closed(g, Isu(up, up_too, name="step")(g.matrix("x", 3)))
    with pytest.raises(GraphError, match=r"'step': 'up_too' \(line \d+\) does not undo 'up' .*came back as"):
        g.check()


@pytest.mark.parametrize("make", [
    lambda g: Isu(wrong_field, wrong_field)(g.matrix("x", 3)),
    lambda g: Phi()(*Cond(lambda s: s.steps)(g.matrix("x", 3))),
    lambda g: g.rows("x", 3, index="steps"),
    lambda g: g.matrix("x", 3, count="steps"),
])
def test_a_state_field_that_does_not_exist(make):
    g = Graph(state="t")
    with pytest.raises(GraphError, match="no field 'steps'; its fields are: instance, t"):
        closed(g, make(g)).check()


def test_a_loss_index_that_does_not_exist():
    g = Graph(state="t")
    SquaredError("y", index="steps")(g.matrix("x", 3))
    with pytest.raises(GraphError, match="no field 'steps'"):
        g.check()


def test_a_state_function_that_cannot_be_compiled():
    def strange(s):
        return len(open("/dev/null").read()) + s.t

    g = Graph(state="t")
    closed(g, Phi()(*Cond(strange)(g.matrix("x", 3))))
    with pytest.raises(GraphError, match="'strange'.*cannot be compiled"):
        Machine(g)


def test_an_output_feeds_one_node_only():
    g = Graph()
    x = g.matrix("x", 3)
    Linear(3, 3, name="first")(x)
    with pytest.raises(GraphError, match="feeds 'first' already.*Bcast"):
        Linear(3, 3)(x)


@pytest.mark.parametrize("make", [
    lambda: Linear(0, 3), lambda: Linear(3, -1), lambda: Linear(3, 2.5), lambda: Linear(True, 2),
    lambda: Linear(3, 3, "swish"), lambda: Embedding(0, 3), lambda: Split(3), lambda: Split(3, 0), lambda: Bcast(1),
    lambda: Cond(lambda s: 0, outputs=1), lambda: Graph(state="a a"), lambda: Graph(state="instance"),
    lambda: Graph(state="a b c d e f g h"), lambda: Graph(state="1x"), lambda: rnn(hidden=0), lambda: mlp(layers=0),
    lambda: Graph().zeros(0), lambda: Concat()(Graph().zeros(1)), lambda: Linear(1, 1)(), lambda: Linear(1, 1)(3),
])
def test_impossible_sizes_and_calls(make):
    with pytest.raises(GraphError):
        make()


def test_graphs_do_not_mix_nodes_are_used_once_and_names_are_unique():
    a, b = Graph(), Graph()
    with pytest.raises(GraphError, match="different graphs"):
        Concat()(a.zeros(1), b.zeros(1))
    node = Linear(1, 1)
    node(a.zeros(1))
    with pytest.raises(GraphError, match="wired already"):
        node(a.zeros(1))
    Linear(1, 1, name="same")(a.zeros(1))
    with pytest.raises(GraphError, match="two nodes are called 'same'"):
        Linear(1, 1, name="same")(a.zeros(1))


def test_fixed_placement_is_checked():
    g = mlp(4, 2, 3, 2)
    g.nodes[1].worker = 2
    with pytest.raises(SettingError, match="worker 2"):
        Machine(g, workers=2)
    assert Machine(g, workers=3).placement[g.nodes[1]] == 2


def table(**columns):
    return Instances({name: Column(np.array(v), np.arange(len(v) + 1), name=name) for name, v in columns.items()})


@pytest.mark.parametrize("tokens, label, text", [
    ([0, 14], [0, 1], r"column 'tokens', row 1: 14 .*0 to 13"),
    ([0.0, 0.5], [0, 1], "column 'tokens', row 1: 0.5"),
    ([0, 1], [0, 10], r"column 'label', row 1: label 10 .*0 to 9"),
    ([0, 1], [-1, 0], "column 'label', row 0: label -1"),
])
def test_data_out_of_range(tokens, label, text):
    with pytest.raises(DataError, match=text):
        rnn().check_data(table(tokens=tokens, label=label))


def test_data_without_a_column_or_of_another_width_or_with_an_empty_instance():
    with pytest.raises(DataError, match="reads column 'label' but the data have: tokens"):
        rnn().check_data(table(tokens=[1]))
    with pytest.raises(DataError, match=r"'pixels' has shape \(rows, 1\).*\(rows, 784\)"):
        mlp().check_data(table(pixels=[1.0], label=[1]))
    data = Instances({"tokens": Column(np.array([1]), np.array([0, 1, 1]), name="tokens"),
                      "label": Column(np.array([1, 1]), np.arange(3), name="label")})
    with pytest.raises(DataError, match="'tokens', instance 1: it has no rows"):
        rnn().check_data(data)


def test_parameters_are_named_counted_saved_and_loaded(tmp_path):
    g = rnn(embedding=4, hidden=5).initialise(3)
    assert g.parameter_count == 14 * 4 + (4 + 5) * 5 + 5 + 5 * 10 + 10
    assert mlp().parameter_count == 3 * (784 * 784 + 784) + 784 * 10 + 10
    g.save(tmp_path / "weights.safetensors")
    other = rnn(embedding=4, hidden=5).initialise(4).load(tmp_path / "weights.safetensors")
    assert all(np.array_equal(g.parameters[k], v) for k, v in other.parameters.items())
    with pytest.raises(CheckpointError, match="'embedding.weight' has shape"):
        rnn(embedding=3, hidden=5).load(tmp_path / "weights.safetensors")
    arrays = dict(g.parameters)
    broken = arrays["cell.bias"].copy()
    broken[2] = np.nan
    with pytest.raises(CheckpointError, match="'cell.bias' holds a value that is not finite"):
        g.load_parameters(arrays | {"cell.bias": broken})
    with pytest.raises(CheckpointError, match="unknown parameter 'x.y'"):
        g.load_parameters(arrays | {"x.y": broken})
    del arrays["cell.weight"]
    with pytest.raises(CheckpointError, match="'cell.weight' is missing"):
        g.load_parameters(arrays)
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(CheckpointError, match="cannot be read"):
        g.load(tmp_path / "junk")


def test_initial_values_depend_on_the_seed_alone():
    a, b, c = (rnn(hidden=8, embedding=8).initialise(s).parameters for s in (0, 0, 1))
    assert all(np.array_equal(a[k], b[k]) for k in a)
    assert not np.array_equal(a["cell.weight"], c["cell.weight"])


def test_a_loss_with_labels_of_width_two():
    g = Graph()
    SoftmaxCrossEntropy("y")(g.matrix("x", 3))
    data = Instances({"x": Column(np.ones((1, 3)), np.array([0, 1]), name="x"),
                      "y": Column(np.ones((1, 2)), np.array([0, 1]), name="y")})
    with pytest.raises(DataError, match="must have width 1"):
        g.check_data(data)
