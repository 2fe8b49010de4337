"""A run that is killed goes on from its last checkpoint as if nothing had happened: byte for byte, with one worker."""

import os
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ampnet.errors import CheckpointError
from ampnet.training import checkpoint

from .computed import computed
from .saving_often import train

ROOT = Path(__file__).parent.parent.parent
FILES = ("checkpoint.safetensors", "best.safetensors")
ENDLESS = 10**6   # epochs


@contextmanager
def training(out):
    """A process that trains without end, once it is past its imports."""
    process = subprocess.Popen([sys.executable, "-m", "tests.training.saving_often", str(out), str(ENDLESS)], cwd=ROOT,
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def check_whole(folder):
    """(epochs, instances of the next) of a checkpoint that is whole; None where none was made yet."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return None
    arrays, position, updates = checkpoint.read(path)
    assert all(np.isfinite(array).all() for array in arrays.values()) and min(updates.values()) >= 0
    if (folder / "best.safetensors").exists():
        checkpoint.read(folder / "best.safetensors")
    return position["epoch"], position["instances"]


def wait_beyond(position, folder, process):
    """Wait for a checkpoint behind a position."""
    while (check_whole(folder) or (0, 0)) <= position:
        assert process.poll() is None
        time.sleep(0.005)


def check_same(one, other):
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    rows = [computed(folder / "metrics.jsonl") for folder in (one, other)]
    assert rows[0] == rows[1]
    assert [row["epoch"] for row in rows[0]] == list(range(1, len(rows[0]) + 1))


@pytest.fixture
def unflushed(monkeypatch):
    """Runs in this process are not killed, so they need not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_four_epochs_are_two_and_two_and_are_those_of_a_run_killed_inside_an_epoch(tmp_path, unflushed):
    straight, parts, killed = (tmp_path / name for name in ("straight", "parts", "killed"))
    train(straight, 4)
    train(parts, 2)
    train(parts, 4)
    check_same(straight, parts)
    with training(killed) as process:
        wait_beyond((1, 0), killed, process)
    epoch, instances = check_whole(killed)
    assert 1 <= epoch < 4 and instances > 0
    train(killed, 4)
    check_same(straight, killed)


@pytest.mark.parametrize("times", [4, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_killed_at_any_moment(tmp_path, times, unflushed):
    """Each time the checkpoint is whole and not older than before, and in the end nothing tells of the kills."""
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    moments, reached = random.Random(times), [(0, 0)]
    for number in range(times):
        with training(killed) as process:
            if number % 2:   # among the checkpoints, which take most of the time; else while it starts, too
                wait_beyond(reached[-1], killed, process)
            time.sleep(moments.uniform(0, 0.5))
            assert process.poll() is None
            process.kill()
        reached.append(check_whole(killed) or (0, 0))
    assert reached == sorted(reached) and reached[-1] > (0, 0), reached
    train(killed, reached[-1][0] + 1)
    train(straight, reached[-1][0] + 1)
    check_same(straight, killed)
    assert not list(killed.glob("*.part"))


def test_a_checkpoint_of_another_epoch_is_refused(tmp_path, unflushed):
    """Inside an epoch the position is of its data and its seed; going on with others would skip and repeat instances."""
    from ampnet import Trainer
    from ampnet.datasets import list_reduction
    from ampnet.graphs import rnn
    with training(tmp_path) as process:
        wait_beyond((0, 0), tmp_path, process)
    data = list_reduction.load(0, 50, 10).train
    for seed, count in ((6, 40), (5, 41), (5, 2)):
        with pytest.raises(CheckpointError, match=f"of 40 instances.*seed 5.*{count} instances and seed {seed}"):
            Trainer(rnn(embedding=8, hidden=8), seed=seed).fit(data.take(count), ENDLESS, out=tmp_path, resume=True)
