"""A learning rate that is far too large ends every task within an epoch: exit code 3, one line, a checkpoint that loads."""

import numpy as np
import pytest

from ampnet.cli import main

from .test_cli import write_idx
from .test_cli_tasks import TREES, write_molecules


def images(folder):
    rng = np.random.default_rng(0)
    for name, count in (("train", 200), ("t10k", 100)):
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", rng.integers(0, 256, (count, 28, 28)))
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", rng.integers(0, 10, count))


def trees(folder):
    for name in ("train", "dev", "test"):
        (folder / f"{name}.txt").write_text("\n".join(TREES * 5) + "\n")


# task: (its folder, who fills it, a learning rate at which a loss or gradient overflows, further options); gates and squashed
# states take far more than sums do
TASKS = {
    "mnist": ("mnist", images, "1e6", ("--hidden", 16)),
    "list-reduction": (None, None, "1e6", ("--hidden", 16, "--limit", 400, "--min-update-frequency", 10)),
    "sentiment": ("sst", trees, "1e38", ("--hidden", 8, "--min-update-frequency", 20)),
    "babi15": (None, None, "1e38", ("--limit", 200)),
    "qm9": ("qm9", write_molecules, "1e38", ("--hidden", 8, "--min-update-frequency", 5)),
}


def ampnet(*arguments):
    """The command, in this process; its exit code."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return left.value.code or 0


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("task, lr", [(task, lr) for task, (_, _, lr, _) in TASKS.items()]
                         + [(task, "1e6") for task in ("sentiment", "babi15", "qm9")])
def test_divergence(tmp_path, monkeypatch, capsys, task, lr, workers):
    name, fill, _, options = TASKS[task]
    monkeypatch.setenv("AMPNET_DATA", str(tmp_path / "data"))
    if name is not None:
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        fill(folder)
    out = tmp_path / "run"
    code = ampnet("train", task, "--lr", lr, "--lr-schedule", "constant", "--epochs", 3, "--workers", workers, *options,
                  "--out", out)
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("compiling kernels")]
    assert code == 3, errors
    assert len(errors) == 1
    for part in ("error: node '", "instance ", "update "):
        assert part in errors[0]
    assert "a loss or gradient is not finite" in errors[0] or "': weights have grown beyond all use" in errors[0]
    assert ", update," not in errors[0] or ": parameter '" in errors[0]
    assert not (out / "metrics.jsonl").exists()   # not one epoch was finished
    assert ampnet("eval", out) == 0 and "epoch 0" in capsys.readouterr().out
