"""--record and --replay: a training with several workers again, bit for bit; and records that do not fit or are damaged."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from ampnet import Trainer
from ampnet.datasets import Column, Instances
from ampnet.errors import CheckpointError, RecordError, SettingError
from ampnet.graphs import rnn
from ampnet.training import orderfile
from ampnet.training.metrics import read_json_lines

from .computed import computed

OPTIONS = {"workers": 2, "max_active_keys": 8, "min_update_frequency": 10, "lr": 3e-3, "lr_schedule": "cosine", "warmup": 30}


def make(hidden=8, **options):
    return Trainer(rnn(embedding=6, hidden=hidden), **(OPTIONS | options))


@pytest.mark.parametrize("options", [{}, {"workers": 3, "replicas": 3}, {"checkpoint_every": 70}, {"coalesce": False}])
def test_a_replayed_training_has_the_same_weights_and_metrics(lists, tmp_path, options):
    first, again, order = tmp_path / "first", tmp_path / "again", tmp_path / "order"
    make(**options).fit(lists, epochs=2, out=first, record=order)
    make(**options).fit(lists, epochs=2, out=again, replay=order)
    for name in ("checkpoint.safetensors", "best.safetensors"):
        assert (first / name).read_bytes() == (again / name).read_bytes(), name
    assert computed(first / "metrics.jsonl") == computed(again / "metrics.jsonl")
    messages = sum(row["messages"] for row in read_json_lines(first / "metrics.jsonl"))
    assert order.stat().st_size < 2 * messages + 4000


def test_a_resumed_run_is_recorded_and_replayed_from_the_same_checkpoint(lists, tmp_path):
    order, first, again = tmp_path / "order", tmp_path / "first", tmp_path / "again"
    make().fit(lists, epochs=2, out=first)
    again.mkdir()
    for name in ("checkpoint.safetensors", "metrics.jsonl"):
        (again / name).write_bytes((first / name).read_bytes())
    make().fit(lists, epochs=3, out=first, resume=True, record=order)
    make().fit(lists, epochs=3, out=again, resume=True, replay=order)
    assert (first / "checkpoint.safetensors").read_bytes() == (again / "checkpoint.safetensors").read_bytes()
    with pytest.raises(RecordError, match="run 1 does not fit: this one has another order"):
        make().fit(lists, epochs=3, replay=order)


@pytest.fixture(scope="module")
def recorded(lists, tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "order"
    make().fit(lists, epochs=1, record=path)
    return path


@pytest.mark.parametrize("options, text", [
    ({"max_active_keys": 4}, "recorded with max_active_keys = 8, this run has 4"),
    ({"workers": 3}, "recorded with workers = 2, this run has 3"),
    ({"seed": 1}, "recorded with seed = 0, this run has 1"),
    ({"hidden": 9}, "recorded with a node '")])
def test_a_record_of_another_run_is_refused_by_name(lists, recorded, options, text):
    with pytest.raises(RecordError, match=text) as caught:
        make(**options).fit(lists, epochs=1, replay=recorded)
    assert str(recorded) in str(caught.value) and "\n" not in str(caught.value)


def test_a_record_of_other_data_parameters_or_epochs_is_refused(lists, recorded):
    label = lists.train.columns["label"]
    columns = lists.train.columns | {"label": Column(9 - label.values, label.offsets, "label")}
    changed = replace(lists, train=Instances(columns))
    with pytest.raises(RecordError, match="run 1 does not fit: this one has other data"):
        make().fit(changed, epochs=1, replay=recorded)
    with pytest.raises(RecordError, match="epochs = 1, this run has 2"):
        make().fit(lists, epochs=2, replay=recorded)
    trainer = make()
    trainer.model.parameters["cell.bias"][0] = 0.5
    with pytest.raises(RecordError, match="run 1 does not fit.*other parameters"):
        trainer.fit(lists, epochs=1, replay=recorded)
    with pytest.raises(RecordError, match="another placement"):
        Trainer(rnn(embedding=6, hidden=8), dict.fromkeys(orderfile.recorded_placement(recorded), 1), **OPTIONS).fit(
            lists, epochs=1, replay=recorded)
    make().fit(lists, epochs=1, replay=recorded)


def test_a_record_that_ends_early_says_after_which_run(lists, recorded, tmp_path):
    cut = tmp_path / "cut"
    cut.write_bytes(recorded.read_bytes()[:-5])
    with pytest.raises(RecordError, match="the record ends after 1 runs"):
        make().fit(lists, epochs=1, replay=cut)


def test_an_interrupted_recording_can_be_replayed_up_to_there(lists, tmp_path):
    class Stop:
        def __getattr__(self, name):
            return lambda *_: None

        def epoch_ended(self, row):
            raise KeyboardInterrupt

    order = tmp_path / "order"
    with pytest.raises(KeyboardInterrupt):
        make().fit(lists, epochs=3, record=order, observers=[Stop()])
    with pytest.raises(RecordError, match="the record ends after 2 runs"):
        make().fit(lists, epochs=3, replay=order)


def test_nothing_is_overwritten(lists, recorded, tmp_path):
    before = recorded.read_bytes()
    with pytest.raises(RecordError, match="exists already"):
        make().fit(lists, epochs=1, record=recorded)
    assert recorded.read_bytes() == before
    with pytest.raises(RecordError, match="no such folder"):
        make().fit(lists, epochs=1, record=tmp_path / "none" / "order")
    with pytest.raises(SettingError, match="not both"):
        make().fit(lists, epochs=1, record=tmp_path / "a", replay=recorded)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_error(lists, tmp_path, monkeypatch):
    monkeypatch.setattr(orderfile, "check_new", lambda path: None)
    with pytest.raises(CheckpointError, match="cannot be written: No space left"):
        make().fit(lists, epochs=1, record="/dev/full")


@pytest.mark.parametrize("damage", range(8))
def test_a_damaged_record_is_refused(lists, recorded, tmp_path, damage):
    raw = bytearray(recorded.read_bytes())
    at = [0, len(orderfile.MAGIC), len(orderfile.MAGIC) + 8, len(orderfile.MAGIC) + 16, len(orderfile.MAGIC) + 30,
          len(raw) // 2, len(raw) - 1, 5][damage]
    raw[at] ^= 0x41
    path = tmp_path / "order"
    path.write_bytes(raw)
    with pytest.raises(RecordError, match=str(path)):
        make().fit(lists, epochs=1, replay=path)


def test_other_parameters_at_the_end_are_noticed(lists, recorded, tmp_path):
    """As where another version computes another last bit."""
    with open(recorded, "rb") as file:
        file.seek(len(orderfile.MAGIC))
        header, one, *rest = iter(lambda: orderfile._read_frame(recorded, file, "it"), None)
    path = tmp_path / "order"
    one[0]["after"] ^= 1
    path.write_bytes(orderfile.MAGIC + b"".join(orderfile._frame(*frame) for frame in (header, one, *rest)))
    with pytest.raises(RecordError, match="run 1 ended with other parameters.*it was made with ampnet"):
        make().fit(lists, epochs=1, replay=path)


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "ampnet.cli", *map(str, arguments)], capture_output=True, text=True,
                          timeout=200)


def test_on_the_command_line(tmp_path):
    options = ("train", "list-reduction", "--hidden", 8, "--limit", 300, "--epochs", 1, "--workers", 2, "--quiet")
    assert command(*options, "--out", tmp_path / "a", "--record", tmp_path / "order").returncode == 0
    assert command(*options, "--out", tmp_path / "b", "--replay", tmp_path / "order").returncode == 0
    a, b = ((tmp_path / name / "checkpoint.safetensors").read_bytes() for name in "ab")
    assert a == b
    for wrong, text in ((("--replay", tmp_path / "order", "--max-active-keys", 3), "max_active_keys = 16"),
                        (("--replay", tmp_path / "none"), "No such file"), (("--record", tmp_path / "order"), "exists already"),
                        (("--record", tmp_path / "c", "--replay", tmp_path / "order"), "exclude")):
        ended = command(*options, "--out", tmp_path / "c", *wrong)
        assert ended.returncode == 1 and text in ended.stderr and ended.stderr.count("\n") == 1, ended.stderr
        assert not (tmp_path / "c").exists()
