"""Training in PyTorch: it improves, goes on after an interruption, writes rows as ours, and leaves PyTorch as it was."""

import json

import numpy as np
import pytest

from ampnet import baselines
from ampnet.errors import AmpnetError, CheckpointError, DataError, DivergenceError, SettingError
from ampnet.experiments import find
from ampnet.training import Trainer
from ampnet.training.metrics import read_json_lines

OF_TIME = {"seconds", "train_seconds", "instances_per_second", "valid_instances_per_second"}
UNREACHABLE = {"qm9": 1e-9}   # an error; accuracies


@pytest.fixture(autouse=True)
def with_torch(request):
    if "without_torch" not in request.node.name:
        pytest.importorskip("torch")


def train(small, task, folder, epochs, options=None, **further):
    config, data = small(task, **(options or {}))
    return baselines.train(task, config, data, folder, epochs=epochs, target=UNREACHABLE.get(task, 2.0), **further)


def without_times(rows):
    return [{name: value for name, value in row.items() if name not in OF_TIME} for row in rows]


def test_training_improves(task, small, run_dir):
    history = train(small, task, run_dir, 12)
    first, last = history.epochs[0], history.last
    assert last["train_loss"] < 0.95 * first["train_loss"]
    assert history.best == (min if task == "qm9" else max)(row["valid_metric"] for row in history.epochs)
    assert not history.reached_target and len(history.epochs) == 12


def test_a_run_that_was_interrupted_goes_on_as_if_nothing_had_happened(task, small, tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    expected = train(small, task, whole, 4)

    class Stop(Exception):
        pass

    def stop(line):
        if line.startswith("epoch 2/"):
            raise Stop

    with pytest.raises(Stop):
        train(small, task, halves, 4, tell=stop)
    assert len(read_json_lines(halves / "metrics.jsonl")) == 2
    history = train(small, task, halves, 4)
    assert without_times(history.epochs) == without_times(expected.epochs)
    assert history.epochs == read_json_lines(halves / "metrics.jsonl")
    assert (whole / "torch.safetensors").read_bytes() == (halves / "torch.safetensors").read_bytes()


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "adam"])
@pytest.mark.parametrize("further", [{}, {"clip": 0.5, "weight_decay": 0.01}])
def test_every_optimizer_goes_on_with_its_state(optimizer, further, small, tmp_path):
    """Of the Tree-LSTM, whose embedding has sparse gradients where that can be."""
    options = {"optimizer": optimizer, "lr": 0.01, **further}
    expected = train(small, "sentiment", tmp_path / "whole", 3, options)
    for epochs in (1, 2, 3):
        history = train(small, "sentiment", tmp_path / "parts", epochs, options)
    assert without_times(history.epochs) == without_times(expected.epochs)


def test_a_row_without_a_checkpoint_is_done_again(small, run_dir):
    train(small, "babi15", run_dir, 2)
    with open(run_dir / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"epoch": 3, "valid_metric": 0.0}) + "\n")
    history = train(small, "babi15", run_dir, 3)
    assert [row["epoch"] for row in history.epochs] == [1, 2, 3]
    assert history.last["train_loss"] > 0


def test_rows_have_keys_of_ours_and_mean_the_same(task, small, run_dir):
    """Of an epoch so slow that nothing changes, so that both evaluate the initial values."""
    options = {"lr": 1e-12, "dropout": 0.0} if task == "sentiment" else {"lr": 1e-12}
    config, data = small(task, **options)
    row = train(small, task, run_dir, 1, options).last
    model = find(task).build(config.model, data.meta)
    ours = Trainer(model, **config.settings.as_dict()).fit(data, 1).last
    assert row.keys() >= OF_TIME | {"epoch", "train_loss", "valid_loss", "valid_metric", "metric_name", "instances"}
    assert row.keys() <= ours.keys()
    for name in ("epoch", "metric_name", "instances"):
        assert row[name] == ours[name]
    for name in ("train_loss", "valid_loss", "valid_metric"):
        np.testing.assert_allclose(row[name], ours[name], rtol=1e-4, err_msg=name)


def test_training_ends_at_the_target_and_is_over_when_asked_again(small, run_dir):
    config, data = small("mnist")
    history = baselines.train("mnist", config, data, run_dir, epochs=20, target=0.9)
    assert history.reached_target and len(history.epochs) < 20 and history.best >= 0.9
    again = baselines.train("mnist", config, data, run_dir, epochs=20, target=0.9)
    assert again.reached_target and again.epochs == history.epochs and again.best == history.best


def test_limit_and_the_cosine_schedule_are_the_configurations(small, run_dir):
    config, data = small("mnist", limit=50, lr_schedule="cosine")
    history = baselines.train("mnist", config, data, run_dir, epochs=2, target=2.0)
    assert history.last["instances"] == 50
    constant = train(small, "mnist", run_dir.with_name("constant"), 2, {"limit": 50})
    assert history.last["train_loss"] != constant.last["train_loss"]


def test_seeds_differ_and_one_seed_repeats_itself(small, tmp_path):
    losses = [train(small, "sentiment", tmp_path / str(i), 1, {"seed": seed}).last["train_loss"]
              for i, seed in enumerate((0, 0, 1))]
    assert losses[0] == losses[1] != losses[2]


def test_threads_and_random_numbers_are_as_before(small, run_dir):
    import torch
    torch.manual_seed(5)
    expected, before, seen = torch.rand(1).item(), torch.get_num_threads(), []
    torch.manual_seed(5)
    train(small, "sentiment", run_dir, 1, threads=before + 1, tell=lambda line: seen.append(torch.get_num_threads()))
    assert seen == [before + 1]
    assert torch.get_num_threads() == before
    assert torch.rand(1).item() == expected


def test_a_checkpoint_of_another_run_is_refused(small, run_dir):
    train(small, "mnist", run_dir, 1)
    with pytest.raises(CheckpointError, match="its seed is 0, not 7"):
        train(small, "mnist", run_dir, 2, {"seed": 7})
    with pytest.raises(CheckpointError, match="its task is 'mnist', not 'babi15'"):
        train(small, "babi15", run_dir, 2)
    with pytest.raises(CheckpointError, match="its model is"):
        train(small, "mnist", run_dir, 2, {"hidden": 17})


def test_a_damaged_checkpoint_is_refused(small, run_dir):
    train(small, "mnist", run_dir, 1)
    path = run_dir / "torch.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="cannot be read"):
        train(small, "mnist", run_dir, 2)


def test_a_run_of_another_kind_is_left_alone(small, run_dir):
    run_dir.mkdir()
    (run_dir / "metrics.jsonl").write_text('{"epoch": 1}\n')
    with pytest.raises(SettingError, match="holds a run, but no torch.safetensors"):
        train(small, "mnist", run_dir, 1)
    assert (run_dir / "metrics.jsonl").read_text() == '{"epoch": 1}\n'


def test_a_loss_that_is_not_finite_ends_the_run(small, run_dir):
    with pytest.raises(DivergenceError, match="mnist in PyTorch: the loss is not finite in epoch"):
        train(small, "mnist", run_dir, 20, {"lr": 1e30})


def test_what_there_is_no_baseline_of_is_said(small, run_dir):
    config, data = small("mnist")
    with pytest.raises(SettingError, match=r"no PyTorch baseline of 'cifar'; known: mnist"):
        baselines.train("cifar", config, data, run_dir)
    with pytest.raises(SettingError, match="has the cell 'relu' only, got 'lstm'"):
        train(small, "list-reduction", run_dir, 1, {"cell": "lstm"})


def test_wrong_data_are_refused_as_by_ours(small, run_dir):
    config, data = small("mnist")
    with pytest.raises(DataError, match="label 3 is out of range"):
        baselines.train("mnist", config, type(data)("mnist", data.train, data.valid, meta={"width": 12, "classes": 3}), run_dir)


def test_without_torch_there_is_one_clear_line(small, run_dir, monkeypatch):
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    config, data = small("mnist")
    assert not baselines.is_available()
    with pytest.raises(AmpnetError, match=r"PyTorch is not installed: pip install 'ampnet\[torch\]'"):
        baselines.train("mnist", config, data, run_dir)
