"""A checkpoint that does not fit is refused with the name of what is wrong, and the model stays as it was."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from ampnet import CheckpointError, Trainer
from ampnet.graphs import Machine, ggnn, rnn, tree_lstm
from ampnet.training import checkpoint


def small(cell="relu", hidden=6):
    return rnn(embedding=8, hidden=hidden, cell=cell)


def write(path, graph, change=lambda arrays: None, optimizer="adam"):
    """A checkpoint of a graph, after a change to its tensors."""
    machine = Machine(graph.initialise(0))
    machine.optimizer(optimizer)
    checkpoint.save(path, machine, {"epoch": 1, "best": 0.5, "seed": 0})
    with safe_open(str(path), framework="numpy") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(arrays)
    path.write_bytes(save(arrays, metadata=metadata))


def restore(path, graph):
    """As a resumed run does."""
    machine = Machine(graph)
    machine.optimizer("adam")
    return checkpoint.restore(path, machine)


def check_refused(load, path, graph, *texts):
    before = {name: value.copy() for name, value in graph.parameters.items()}
    with pytest.raises(CheckpointError) as caught:
        load(path, graph)
    text = str(caught.value)
    assert "\n" not in text and str(path) in text
    for part in texts:
        assert part in text
    for name, value in graph.parameters.items():
        assert value.tobytes() == before[name].tobytes(), f"{name} was changed"


both = pytest.mark.parametrize("load", [restore, checkpoint.load_parameters])

OTHERS = {
    "narrower": (lambda: small(hidden=5), "'cell.weight' has shape (13, 5), expected (14, 6)"),
    "lstm": (lambda: small("lstm"), "'cell."),
    "tree": (lambda: tree_lstm(14, 10, 8, 6), "parameter 'cell.weight' is missing"),
    "graph": (lambda: ggnn(2, 2, 6, 2), "is missing"),
}


@both
@pytest.mark.parametrize("other, text", OTHERS.values(), ids=list(OTHERS))
def test_that_of_another_model(tmp_path, load, other, text):
    path = tmp_path / "other.safetensors"
    write(path, other())
    check_refused(load, path, small().initialise(1), text)


def leave_out(arrays, name):
    del arrays[name]


def put(value):
    return lambda arrays, name: arrays.update({name: value(arrays.get(name))})


def with_first(number, dtype=np.float32):
    def change(array):
        array = array.astype(dtype)
        array.flat[0] = number
        return array
    return put(change)


WRONG = {
    "missing": leave_out,
    "turned": put(lambda a: np.ascontiguousarray(a.T)),
    "flat": put(np.ravel),
    "nan": with_first(np.nan),
    "infinite": with_first(-np.inf),
}
# In float64 these are finite, and in the float32 of the model they are not.
WIDE = {"too large": with_first(1e300, np.float64), "too small": with_first(-1e300, np.float64)}


@both
@pytest.mark.parametrize("change", [*WRONG.values(), *WIDE.values()], ids=[*WRONG, *WIDE])
@pytest.mark.filterwarnings("error")
def test_a_wrong_parameter(tmp_path, load, change):
    path = tmp_path / "wrong.safetensors"
    write(path, small(), lambda arrays: change(arrays, "cell.weight"))
    check_refused(load, path, small().initialise(1), "'cell.weight'")


@pytest.mark.parametrize("change", [*WRONG.values(), *WIDE.values()], ids=[*WRONG, *WIDE])
@pytest.mark.filterwarnings("error")
def test_a_wrong_optimizer_state_leaves_the_model_alone(tmp_path, change):
    path = tmp_path / "wrong.safetensors"
    write(path, small(), lambda arrays: change(arrays, "optimizer.1.cell.weight"))
    check_refused(restore, path, small().initialise(1), "'cell.weight'", "optimizer state 1")


@both
def test_a_parameter_too_many(tmp_path, load):
    path = tmp_path / "wrong.safetensors"
    write(path, small(), lambda arrays: put(lambda _: np.zeros(3, np.float32))(arrays, "further.weight"))
    check_refused(load, path, small().initialise(1), "unknown parameter 'further.weight'")


def test_a_resumed_run_refuses_it_before_the_first_epoch(tmp_path, lists):
    write(tmp_path / "checkpoint.safetensors", small(hidden=5))
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    trainer = Trainer(small())
    with pytest.raises(CheckpointError, match="'cell.weight' has shape"):
        trainer.fit(lists, epochs=3, out=tmp_path, resume=True)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def test_weights_of_another_model_are_refused_by_load(tmp_path):
    path = tmp_path / "weights.safetensors"
    small(hidden=5).initialise(0).save(path)
    check_refused(lambda path, graph: graph.load(path), path, small().initialise(1), "'cell.weight' has shape")
