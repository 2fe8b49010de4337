"""Epochs in stretches: every instance once, what they counted as of one run, and a way through a checkpoint and back."""

import json
import signal
import threading

import numpy as np
import pytest

from ampnet import CheckpointError, SettingError, Trainer
from ampnet.datasets.columns import batched
from ampnet.graphs import mlp, rnn
from ampnet.training import checkpoint
from ampnet.training.epoch import Epoch
from ampnet.training.metrics import read_json_lines
from ampnet.training.trainer import Observer


class StopAt(Observer):
    """Interrupts when this many instances of an epoch are home."""

    def __init__(self, instances):
        self.instances = instances

    def progress(self, instances_home):
        if instances_home >= self.instances:
            raise KeyboardInterrupt


def make(model="rnn", **options):
    graph = mlp(6, 3, hidden=5, layers=2) if model == "mlp" else rnn(embedding=8, hidden=8)
    return Trainer(graph, **{"max_active_keys": 4, "min_update_frequency": 10, "seed": 3, "checkpoint_every": 17, **options})


def rows_in_batches():
    rng = np.random.default_rng(0)
    return batched({"pixels": rng.random((400, 6)), "label": rng.integers(0, 3, 400)}, 5)


@pytest.mark.parametrize("every, lengths", [(0, [300]), (1, [1] * 300), (100, [100] * 3), (128, [128, 128, 44]), (999, [300])])
def test_stretches_cover_the_epoch(lists, every, lengths):
    epoch, order = Epoch(2, lists.train, 3, every), []
    for length in lengths:
        stretch = epoch.next_stretch()
        assert len(stretch) == length and not epoch.is_over
        order += stretch.tolist()
        epoch.done += length
    assert epoch.is_over and order == epoch.order.tolist() and sorted(order) == list(range(300))


def test_another_length_goes_on_to_its_own_next_checkpoint(lists):
    epoch = Epoch(1, lists.train, 0, 100)
    epoch.done = 34
    assert len(epoch.next_stretch()) == 66


@pytest.mark.parametrize("change", [{"counted": None}, {"counted": {}}, {"instances": "many"}, {"seconds": None}, {"seed": 4},
                                    {"of": 299}, {"instances": 300}, {"instances": -1}])
def test_a_damaged_position_is_one_clear_error(lists, change):
    trainer, epoch = make(), Epoch(1, lists.train, 3, 100)
    epoch.count(trainer.machine.run(lists.train, epoch.next_stretch(), max_active_keys=4))
    progress = json.loads(json.dumps(epoch.progress()))
    Epoch(1, lists.train, 3).go_on(progress, "file")
    with pytest.raises(CheckpointError, match="^file: ") as caught:
        Epoch(1, lists.train, 3).go_on(progress | change, "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model, options", [
    ("rnn", {}), ("rnn", {"replicas": 2}), ("rnn", {"lr_schedule": "cosine"}), ("rnn", {"optimizer": "momentum", "lr": 0.01}),
    ("mlp", {"max_active_keys": 2, "optimizer": "adagrad"})])
def test_an_epoch_interrupted_and_resumed_is_the_same(lists, tmp_path, model, options):
    data = lists if model == "rnn" else rows_in_batches()
    straight, parts = tmp_path / "straight", tmp_path / "parts"
    make(model, **options).fit(data, epochs=2, out=straight)
    for resume, at in ((False, 20), (True, 60)):
        with pytest.raises(KeyboardInterrupt):
            make(model, **options).fit(data, epochs=2, out=parts, resume=resume, observers=[StopAt(at)])
    make(model, **options).fit(data, epochs=2, out=parts, resume=True)
    for name in ("checkpoint.safetensors", "best.safetensors"):
        assert (straight / name).read_bytes() == (parts / name).read_bytes(), name
    whole, resumed = (read_json_lines(folder / "metrics.jsonl") for folder in (straight, parts))
    for name in ("epoch", "train_loss", "train_metric", "staleness", "updates", "messages", "mean_rows", "instances"):
        assert [row[name] for row in whole] == [row[name] for row in resumed], name


def test_stretches_count_as_one_run_does(lists):
    """With one instance in flight and an update an instance, checkpoints on the way change nothing."""
    options = {"max_active_keys": 1, "min_update_frequency": 1, "coalesce": False}
    whole, stretches = (make(checkpoint_every=every, **options).fit(lists, epochs=1).last for every in (0, 50))
    for name in ("train_loss", "train_metric", "valid_loss", "mean_rows"):
        assert stretches[name] == pytest.approx(whole[name], rel=1e-6), name
    for name in ("messages", "instances"):
        assert stretches[name] == whole[name], name


def test_with_and_without_files_the_parameters_are_the_same(lists, tmp_path):
    with_files, without = make(), make()
    with_files.fit(lists, epochs=1, out=tmp_path)
    without.fit(lists, epochs=1)
    for name, value in without.model.parameters.items():
        assert (with_files.model.parameters[name] == value).all(), name


@pytest.mark.parametrize("value", [-1, 1.5, True, "often"])
def test_checkpoint_every_is_a_whole_number(value):
    with pytest.raises(SettingError, match="checkpoint_every must be a whole number of at least 0"):
        make(checkpoint_every=value)


@pytest.mark.parametrize("workers", [1, 4])
def test_ctrl_c_in_python_joins_the_workers_and_the_trainer_can_fit_again(lists, tmp_path, workers):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    trainer = make(workers=workers, checkpoint_every=0)
    trainer.place(lists.train)
    timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(lists.train, epochs=10**6, out=tmp_path / "run")
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ampnet-worker")]
    assert all(node.record["gathered"] == 0 for node in trainer.machine.engine.nodes)
    again = trainer.fit(lists, epochs=2)
    assert [row["epoch"] for row in again.epochs] == [1, 2] and np.isfinite(again.last["valid_loss"])
    epochs = checkpoint.read(tmp_path / "run" / "checkpoint.safetensors")[1]["epoch"] + 1
    resumed = make(workers=workers, checkpoint_every=0).fit(lists, epochs, out=tmp_path / "run", resume=True)
    assert [row["epoch"] for row in resumed.epochs] == [epochs]
