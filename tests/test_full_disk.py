"""A full disk, or a file that may not grow: the last checkpoint stays, one clear line, no half-written file."""

import json
import resource
import subprocess
from contextlib import contextmanager

import pytest

from ampnet import CheckpointError, Trainer
from ampnet.graphs import rnn
from ampnet.training import checkpoint
from ampnet.training.metrics import append_json, read_json_lines

from .test_cli import ampnet, check_one_line


@contextmanager
def files_of_at_most(size):
    """Writing more into a file fails as on a full disk does, after a part was written; Python ignores SIGXFSZ."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def make(seed=0):
    return Trainer(rnn(embedding=16, hidden=16), seed=seed, checkpoint_every=100)


@pytest.fixture
def small_disk(tmp_path):
    """A file system that holds one checkpoint of list reduction with hidden 64, and half another."""
    machine, folder = Trainer(rnn(hidden=64)).machine, tmp_path / "disk"
    machine.optimizer("adam")
    checkpoint.save(tmp_path / "one", machine, {"epoch": 0})
    folder.mkdir()
    size = (tmp_path / "one").stat().st_size * 3 // 2
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True).returncode:
        pytest.skip("mounting needs privileges")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_run_on_a_full_disk(small_disk):
    out = small_disk / "run"
    result = ampnet("train", "list-reduction", "--hidden", 64, "--limit", 300, "--epochs", 2, "--out", out)
    check_one_line(result, 1, "error:", ".safetensors: cannot be written", "No space left on device")
    assert checkpoint.read(out / "checkpoint.safetensors")[1]["epoch"] == 0
    assert not list(out.glob("*.part"))


def test_the_last_checkpoint_stays_and_the_run_can_go_on(lists, run_dir):
    make().fit(lists, epochs=1, out=run_dir)
    before = {path.name: path.read_bytes() for path in run_dir.iterdir()}
    half = len(before["checkpoint.safetensors"]) // 2
    with files_of_at_most(half), pytest.raises(CheckpointError, match="cannot be written"):
        make().fit(lists, epochs=2, out=run_dir, resume=True)
    assert {path.name: path.read_bytes() for path in run_dir.iterdir()} == before
    make().fit(lists, epochs=2, out=run_dir, resume=True)
    assert [row["epoch"] for row in read_json_lines(run_dir / "metrics.jsonl")] == [1, 2]


def test_a_first_checkpoint_that_fails_leaves_nothing(tmp_path):
    with files_of_at_most(10_000):   # the limit is inherited
        result = ampnet("train", "list-reduction", "--hidden", 64, "--limit", 300, "--out", tmp_path / "run")
    check_one_line(result, 1, "error:", "checkpoint.safetensors: cannot be written", "File too large")
    assert not (tmp_path / "run").exists()


def test_a_line_of_metrics_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_json(path, {"epoch": 1})
    size = path.stat().st_size
    with files_of_at_most(size + 5), pytest.raises(CheckpointError, match=r"metrics.jsonl: cannot be written"):
        append_json(path, {"epoch": 2, "text": "x" * 100})
    assert json.loads(path.read_text()) == {"epoch": 1} and path.stat().st_size == size
