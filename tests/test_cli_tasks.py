"""The tasks with trees and graphs on the command line: small data train and evaluate, bad data is one clear line."""

import gzip
import json

import numpy as np
import pytest

from .test_cli import ampnet, check_one_line

TREES = ["(3 (2 it) (4 (3 works) (2 well)))", "(1 (2 a) (1 bore))", "(2 word)", "(4 (4 (3 great) (2 fun)) (2 here))"]


@pytest.fixture
def trees(tmp_path):
    folder = tmp_path / "data" / "sst"
    folder.mkdir(parents=True)
    for name in ("train", "dev", "test"):
        (folder / f"{name}.txt").write_text("\n".join(TREES * 5) + "\n")
    return folder


@pytest.fixture
def molecules(tmp_path):
    folder = tmp_path / "data" / "qm9"
    folder.mkdir(parents=True)
    write_molecules(folder)
    return folder


def write_molecules(folder, **changes):
    """Chains of 20 atoms, 30 of them; every fifth is for validation."""
    rng, count, atoms = np.random.default_rng(0), 30, 20
    arrays = {
        "index": np.arange(1, count + 1, dtype=np.int32), "n_atoms": np.full(count, atoms, np.uint8),
        "z": rng.choice([1, 6, 7, 8, 9], count * atoms).astype(np.uint8), "n_bonds": np.full(count, atoms - 1, np.uint8),
        "bond_src": np.tile(np.arange(atoms - 1), count).astype(np.uint8),
        "bond_dst": np.tile(np.arange(1, atoms), count).astype(np.uint8),
        "bond_type": rng.integers(1, 5, count * (atoms - 1)).astype(np.uint8),
        "mu": rng.random(count).astype(np.float32), "is_valid": np.arange(count) % 5 == 0}
    for name, (place, value) in changes.items():
        arrays[name][place] = value
    np.savez_compressed(folder / "qm9_graphs.npz", **arrays)


def train(task, folder, out, *options):
    return ampnet("train", task, "--data", folder.parent, "--hidden", 6, "--epochs", 2, "--out", out, *options)


def test_sentiment_trains_and_reports_root_and_binary_accuracy(trees, tmp_path):
    result = train("sentiment", trees, tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "root accuracy" in result.stdout and "root binary accuracy" in result.stdout
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"root_accuracy", "binary_accuracy", "root_binary_accuracy"} <= row.keys() and row["metric_name"] == "accuracy"
    found = json.loads(ampnet("eval", tmp_path / "run", "--split", "test", "--json").stdout)
    assert found["split"] == "test" and 0 <= found["root_accuracy"] <= 1


def test_sentiment_starts_from_vectors(trees, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("it 1 2 3\nfun 0.5 -1 0\n")
    result = train("sentiment", trees, tmp_path / "run", "--embeddings", vectors, "--lr", "1e-9")
    assert result.returncode == 0, result.stderr
    from safetensors.numpy import load_file
    table = load_file(tmp_path / "run" / "checkpoint.safetensors")["embedding.weight"]
    assert table.shape[1] == 3 and np.abs(table - [1, 2, 3]).sum(axis=1).min() < 1e-3
    check_one_line(train("sentiment", trees, tmp_path / "other", "--embeddings", tmp_path / "no.txt"), 1, "error:", "no.txt")


def test_qm9_reports_debye_and_the_error_ratio(molecules, tmp_path):
    result = train("qm9", molecules, tmp_path / "run", "--workers", 2, "--replicas", 2)
    assert result.returncode == 0, result.stderr
    assert "error ratio" in result.stdout
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    mu = np.load(molecules / "qm9_graphs.npz")
    deviation = mu["mu"][~mu["is_valid"]].astype(float).std()
    assert row["error_ratio"] == pytest.approx(row["valid_metric"] / deviation / 0.066513725, rel=1e-4)
    assert "[placement]" in (tmp_path / "run" / "config.toml").read_text()
    check_one_line(ampnet("eval", tmp_path / "run", "--split", "test"), 1, "no test split")


def test_babi15_trains_without_any_file_and_a_run_can_be_placed_like_another(tmp_path):
    nowhere = {"AMPNET_DATA": str(tmp_path / "nothing")}
    common = ("train", "babi15", "--epochs", 1, "--workers", 2)
    result = ampnet(*common, "--out", tmp_path / "run", env=nowhere)
    assert result.returncode == 0, result.stderr
    config = tmp_path / "run" / "config.toml"
    result = ampnet(*common, "--out", tmp_path / "again", "--placement", config, env=nowhere)
    assert result.returncode == 0, result.stderr
    table = config.read_text().split("[placement]")[1].split("[versions]")[0]
    assert table.count("= 1") > 0 and table in (tmp_path / "again" / "config.toml").read_text()
    assert ampnet("eval", tmp_path / "run", "--split", "test", env=nowhere).returncode == 0
    more = ampnet("train", "babi15", "--epochs", 2, "--target", 1.5, "--resume", "--replicas", 2, "--out", tmp_path / "run",
                  env=nowhere)
    assert more.returncode == 0, more.stderr   # the placement recorded was for other nodes, so it is measured anew
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("loss = 0\n")
    check_one_line(ampnet(*common, "--out", tmp_path / "third", "--placement", wrong, env=nowhere), 1, "missing")


@pytest.mark.parametrize("line, texts", [
    ("(3 (2 it) (4 (3 works) (2 well))", ["expected 1 more ')'"]),
    ("(3 (2 it) (4 works)))", []),
    ("(7 (2 it) (4 works))", ["7"]),
    ("(3 (2 it) (4 works) (2 well))", ["one word or two trees", "trees: 3"]),
])
def test_bad_trees(trees, tmp_path, line, texts):
    path = trees / "dev.txt"
    path.write_text("\n".join([*TREES, line]) + "\n")
    check_one_line(train("sentiment", trees, tmp_path / "run"), 1, "error:", "dev.txt", "line 5", *texts)
    assert not (tmp_path / "run").exists()


def test_an_empty_file(trees, molecules, tmp_path):
    (trees / "train.txt").unlink()
    (trees / "train.txt.gz").write_bytes(gzip.compress(b""))
    check_one_line(train("sentiment", trees, tmp_path / "run"), 1, "error:", "train.txt.gz")
    (molecules / "qm9_graphs.npz").write_bytes(b"")
    check_one_line(train("qm9", molecules, tmp_path / "run"), 1, "error:", "qm9_graphs.npz")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("changes, texts", [
    ({"bond_dst": (19 * 7 + 4, 99)}, ["molecule 8", "99"]),
    ({"z": (45, 35)}, ["molecule 3", "35"]),
    ({"mu": (11, np.nan)}, ["molecule 12", "nan"]),
    ({"bond_type": (0, 9)}, ["molecule 1", "9"]),
])
def test_bad_molecules(molecules, tmp_path, changes, texts):
    write_molecules(molecules, **changes)
    check_one_line(train("qm9", molecules, tmp_path / "run"), 1, "error:", "qm9_graphs.npz", *texts)
    assert not (tmp_path / "run").exists()


def test_hidden_smaller_than_the_annotation(molecules, tmp_path):
    check_one_line(train("qm9", molecules, tmp_path / "run", "--hidden", 4), 1, "hidden", "annotation", "5", "4")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options, text", [(("--replicas", "0"), "replicas"), (("--placement", "nowhere.toml"), "nowhere.toml"),
                                           (("--embeddings", "none"), "embeddings")])
def test_impossible_options(tmp_path, options, text):
    check_one_line(ampnet("train", "babi15", "--out", tmp_path / "run", *options), 1, "error:", text)
    assert not (tmp_path / "run").exists()
