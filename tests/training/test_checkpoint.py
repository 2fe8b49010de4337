"""Checkpoints: whole or not at all, and refused by the name of the tensor that does not fit."""

import os

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from ampnet import CheckpointError, Trainer
from ampnet.graphs import rnn
from ampnet.training import checkpoint


@pytest.fixture
def trained(lists, run_dir):
    """(a machine like the one that was trained, its checkpoint)"""
    make(0).fit(lists.train.take(30), epochs=1, out=run_dir)
    return make(1).machine, run_dir / "checkpoint.safetensors"


def make(seed, **options):
    return Trainer(rnn(embedding=8, hidden=8), seed=seed, **options)


def rewrite(path, change):
    with safe_open(str(path), framework="numpy") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(arrays)
    path.write_bytes(save(arrays, metadata=metadata))


def test_restore_brings_everything_back(trained, tmp_path):
    machine, path = trained
    position = checkpoint.restore(path, adam(machine))
    assert position["epoch"] == 1
    checkpoint.save(tmp_path / "again.safetensors", machine, position)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def adam(machine):
    machine.optimizer("adam")
    return machine


@pytest.mark.parametrize("name", ["cell.weight", "classifier.bias", "optimizer.0.cell.weight", "optimizer.1.embedding.weight"])
@pytest.mark.parametrize("how", ["missing", "misshapen", "nan"])
def test_a_wrong_tensor_is_named(trained, name, how):
    machine, path = trained

    def change(arrays):
        assert name in arrays, sorted(arrays)
        if how == "missing":
            del arrays[name]
        elif how == "misshapen":
            arrays[name] = np.zeros((3, 3), np.float32)
        else:
            arrays[name].flat[0] = np.nan

    rewrite(path, change)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.restore(path, adam(machine))
    text = str(caught.value)
    assert str(path) in text and name.removeprefix("optimizer.0.").removeprefix("optimizer.1.") in text


@pytest.mark.parametrize("name", ["extra.weight", "optimizer.0.extra.weight", "optimizer.7.cell.weight"])
def test_an_extra_tensor_is_named(trained, name):
    machine, path = trained
    rewrite(path, lambda arrays: arrays.update({name: np.zeros(3, np.float32)}))
    with pytest.raises(CheckpointError, match=f"unknown.*{name}"):
        checkpoint.restore(path, adam(machine))


def test_another_optimizer_is_refused(trained):
    machine, path = trained
    machine.optimizer("sgd")
    with pytest.raises(CheckpointError, match="another optimizer"):
        checkpoint.restore(path, machine)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "noise", "foreign"])
def test_what_is_no_checkpoint_is_refused_in_one_line(trained, damage):
    machine, path = trained
    content = path.read_bytes()
    path.unlink()
    if damage == "foreign":
        path.write_bytes(save({"cell.weight": np.zeros(3, np.float32)}))
    elif damage != "missing":
        path.write_bytes({"empty": b"", "truncated": content[:len(content) // 2], "noise": b"\x80" * 300}[damage])
    with pytest.raises(CheckpointError) as caught:
        checkpoint.restore(path, machine)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    checkpoint.write_atomically(path, b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(CheckpointError, match="No space left"):
        checkpoint.write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
