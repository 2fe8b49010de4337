"""The command line: each kind of bad input is one clear line and an exit code, and leaves nothing half-written."""

import gzip
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
SMALL = ("train", "list-reduction", "--hidden", "16", "--limit", "400", "--epochs", "2")


def ampnet(*arguments, env=None, timeout=240):
    """Run the command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "ampnet.cli", *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})}, cwd=ROOT)


def check_one_line(result, code, *texts):
    """The command failed with this exit code and one line on stderr that holds the texts."""
    errors = [line for line in result.stderr.splitlines() if not line.startswith("compiling kernels")]
    assert result.returncode == code, result.stderr
    assert len(errors) == 1 or code == 2, result.stderr
    for text in texts:
        assert text in errors[-1], result.stderr
    assert "Traceback" not in result.stderr


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.fixture
def images(tmp_path):
    """A tiny MNIST folder: two kinds of images that are easy to tell apart."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for name, count in (("train", 200), ("t10k", 100)):
        labels = rng.integers(0, 10, count)
        pixels = rng.integers(0, 50, (count, 28, 28))
        pixels[np.arange(count), labels * 2] = 250
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", pixels)
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", labels)
    return folder


def train_mnist(images, out, *options):
    return ampnet("train", "mnist", "--data", images.parent, "--hidden", 16, "--epochs", 2, "--out", out, *options)


def test_help_of_every_command_has_an_example_and_imports_nothing_heavy():
    code = "import sys, ampnet.cli; sys.exit(any(m in sys.modules for m in ('numba', 'numpy', 'rich', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
    for command in ((), ("train",), ("eval",), ("data",), ("data", "list"), ("data", "fetch"), ("data", "check"), ("graph",),
                    ("info",), ("reproduce",)):
        result = ampnet(*command, "--help")
        assert result.returncode == 0 and "Example:" in result.stdout, command


def test_train_eval_and_the_files_of_a_run(tmp_path):
    out = tmp_path / "run"
    result = ampnet(*SMALL, "--out", out, "--trace", "--seed", 3)
    assert result.returncode == 0, result.stderr
    assert "epoch 1/2" in result.stdout and "epoch 2/2" in result.stdout and "\x1b" not in result.stdout
    files = {"config.toml", "metrics.jsonl", "checkpoint.safetensors", "best.safetensors", "trace.json"}
    assert {p.name for p in out.iterdir()} == files
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2] and rows[0]["instances"] == 400
    assert json.loads((out / "trace.json").read_text())["traceEvents"]
    result = ampnet("eval", out, "--json")
    assert json.loads(result.stdout)["metric"] == pytest.approx(max(row["valid_metric"] for row in rows))
    assert "accuracy" in ampnet("eval", out).stdout
    check_one_line(ampnet(*SMALL, "--out", out), 1, "error:", str(out))   # does not overwrite a run


def test_the_target_stops_the_run_and_quiet_prints_nothing(tmp_path):
    result = ampnet(*SMALL, "--target", 0.01, "--out", tmp_path / "run")
    assert result.returncode == 0 and "reached" in result.stdout
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
    result = ampnet(*SMALL, "--quiet", "--out", tmp_path / "quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_two_runs_of_one_seed_are_the_same_bytes_and_another_seed_differs(tmp_path):
    files = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert ampnet(*SMALL, "--seed", seed, "--out", tmp_path / name).returncode == 0
        files.append((tmp_path / name / "checkpoint.safetensors").read_bytes())
    assert files[0] == files[1] != files[2]


def test_mnist_trains_on_files(images, tmp_path):
    result = train_mnist(images, tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["instances"] == 200
    assert ampnet("data", "check", "list-reduction").returncode == 0
    assert "mnist" in ampnet("data", "list", "--data", images.parent).stdout


def test_missing_data_file(images, tmp_path):
    (images / "train-labels-idx1-ubyte.gz").unlink()
    check_one_line(train_mnist(images, tmp_path / "run"), 1, "error:", "train-labels-idx1-ubyte")
    check_one_line(ampnet("train", "mnist", "--data", tmp_path / "nowhere", "--out", tmp_path / "run"), 1, "nowhere")
    assert not (tmp_path / "run").exists()


def damaged(images, what):
    path = images / ("train-labels-idx1-ubyte.gz" if what == "label" else "train-images-idx3-ubyte.gz")
    raw = gzip.decompress(path.read_bytes())
    if what == "truncated":
        path.write_bytes(path.read_bytes()[:-30])
    elif what == "magic":
        path.write_bytes(gzip.compress(b"\1" + raw[1:]))
    elif what == "label":
        path.write_bytes(gzip.compress(raw[:8 + 13] + bytes([10]) + raw[8 + 14:]))
    else:
        write_idx(path, np.zeros((200, 27, 28)))
    return path


@pytest.mark.parametrize("what, texts", [("truncated", []), ("magic", []), ("label", ["10", "13"]), ("size", ["27"])])
def test_damaged_data_files(images, tmp_path, what, texts):
    path = damaged(images, what)
    check_one_line(train_mnist(images, tmp_path / "run"), 1, "error:", path.name, *texts)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options, code, text", [
    (("--hidden", "0"), 1, "hidden"),
    (("--epochs", "0"), 1, "epochs"),
    (("--limit", "0"), 1, "limit"),
    (("--workers", "0"), 1, "workers"),
    (("--max-active-keys", "0"), 1, "max_active_keys"),
    (("--min-update-frequency", "-1"), 1, "min_update_frequency"),
    (("--lr", "-1"), 1, "lr"),
    (("--clip", "-1"), 1, "clip"),
    (("--checkpoint-every", "-1"), 1, "checkpoint_every"),
    (("--optimizer", "lion"), 2, "lion"),
    (("--lr-schedule", "zigzag"), 2, "zigzag"),
    (("--workers", "two"), 2, "two"),
    (("--colour", "red"), 2, "--colour"),
    (("--config", "nowhere.toml"), 1, "nowhere.toml"),
    (("--resume",), 1, ""),
])
def test_impossible_options(tmp_path, options, code, text):
    check_one_line(ampnet("train", "list-reduction", "--out", tmp_path / "run", *options), code, text)
    assert not (tmp_path / "run").exists()


def test_unknown_task_and_unwritable_out(tmp_path):
    check_one_line(ampnet("train", "cifar"), 2, "cifar")
    (tmp_path / "file").write_text("")
    check_one_line(ampnet(*SMALL, "--out", tmp_path / "file" / "run"), 1, "error:", "file")
    check_one_line(ampnet("eval", tmp_path / "nothing"), 1, "nothing")


@pytest.mark.parametrize("workers", [1, 4])
def test_divergence_ends_with_code_3_and_names_node_instance_and_update(tmp_path, workers):
    out = tmp_path / "run"
    result = ampnet(*SMALL, "--lr", "1e30", "--optimizer", "sgd", "--clip", 0, "--workers", workers, "--out", out)
    check_one_line(result, 3, "node '", "instance ", "update ")
    assert ampnet("eval", out).returncode == 0   # the checkpoint from before is whole


def test_debug_adds_the_traceback(tmp_path):
    result = ampnet("--debug", "train", "mnist", "--data", tmp_path)
    assert result.returncode == 1 and "Traceback" in result.stderr


def test_resuming_equals_training_straight_through(tmp_path):
    straight, parts = tmp_path / "straight", tmp_path / "parts"
    common = ("train", "list-reduction", "--hidden", 16, "--limit", 400, "--lr-schedule", "constant", "--target", 1)
    assert ampnet(*common, "--epochs", 4, "--out", straight).returncode == 0
    assert ampnet(*common, "--epochs", 2, "--out", parts).returncode == 0
    assert ampnet("train", "list-reduction", "--epochs", 4, "--resume", "--out", parts).returncode == 0
    assert (straight / "checkpoint.safetensors").read_bytes() == (parts / "checkpoint.safetensors").read_bytes()
    assert len((parts / "metrics.jsonl").read_text().splitlines()) == 4


def test_info_names_versions_cores_and_the_cache():
    text = ampnet("info").stdout
    for word in ("numba", "numpy", "cores", "BLAS", "kernels"):
        assert word.lower() in text.lower()
