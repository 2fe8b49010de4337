"""Trainer: every epoch ends, no gradient is lost, one worker repeats itself byte for byte."""

import json
from itertools import pairwise

import pytest

from ampnet import DataError, DivergenceError, SettingError, Trainer, datasets
from ampnet.graphs import rnn
from ampnet.training.metrics import read_json_lines
from ampnet.training.trainer import Observer

KEYS = {"epoch", "seconds", "train_seconds", "train_loss", "train_metric", "valid_loss", "valid_metric", "metric_name",
        "instances", "instances_per_second", "valid_instances_per_second", "messages", "messages_per_second", "mean_rows",
        "busy", "staleness", "staleness_histogram", "updates", "flops_per_second", "peak_memory"}


def small():
    return rnn(embedding=16, hidden=16)


def trainer(**options):
    return Trainer(small(), **{"max_active_keys": 4, "min_update_frequency": 10, "seed": 3, **options})


def part(lists, count):
    return datasets.Dataset("part", lists.train.take(count), lists.valid, meta=lists.meta)


@pytest.mark.parametrize("keys", [1, 2, 100])
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_tiny_epochs_end(lists, count, workers, keys):
    history = trainer(workers=workers, max_active_keys=keys).fit(lists.train.take(count), epochs=2)
    assert [row["instances"] for row in history.epochs] == [count, count]


def test_no_instances_are_an_error(lists):
    empty = datasets.Instances({name: datasets.Column(column.values[:0], [0], name)
                                for name, column in lists.train.columns.items()})
    with pytest.raises(DataError, match="no training instances"):
        trainer().fit(empty)


def test_empty_validation_is_left_out(lists):
    empty = datasets.Instances({name: datasets.Column(column.values[:0], [0], name)
                                for name, column in lists.valid.columns.items()})
    history = trainer().fit(datasets.Dataset("no valid", lists.train.take(5), empty), epochs=1)
    assert "valid_metric" not in history.last and history.best == history.last["train_metric"]


@pytest.mark.parametrize("workers", [1, 2])
def test_gradients_left_over_are_applied(lists, workers):
    """97 gradients at 10 an update are 9 updates and one with the 7 left over; the cell has one a token."""
    data = lists.train.take(97)
    one_in_flight = trainer(workers=workers, max_active_keys=1, coalesce=False)
    updates = one_in_flight.fit(data, epochs=1).last["updates"]
    tokens = data["tokens"].rows
    assert updates == {"embedding": -(-tokens // 10), "cell": -(-tokens // 10), "classifier": 10}
    assert all(node.record["gathered"] == 0 for node in one_in_flight.machine.engine.nodes)


@pytest.mark.parametrize("keys,coalesce", [(1, False), (7, True), (100, True)])
def test_all_gradients_are_applied_once(lists, keys, coalesce):
    """With SGD, no bias in order and a loss that is linear in its rate, the sum of updates is seen in the counts."""
    run = trainer(max_active_keys=keys, coalesce=coalesce, optimizer="sgd", lr=1e-3)
    run.fit(lists.train.take(97), epochs=1)
    by_name = {node.name: spec.record for node, spec in zip(run.model.nodes, run.machine.engine.nodes, strict=True)}
    assert int(by_name["classifier"]["gradients"][0]) == 97
    assert int(by_name["cell"]["gradients"][0]) == lists.train.take(97)["tokens"].rows


def files_of(lists, folder, **options):
    trainer(**options).fit(lists, epochs=2, out=folder)
    return (folder / "checkpoint.safetensors").read_bytes()


def test_one_worker_is_repeatable(lists, tmp_path):
    first, again, other = (files_of(lists, tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert first == again
    assert first != other


@pytest.mark.parametrize("options", [
    {"lr_schedule": "constant"},
    {"lr_schedule": "step", "step_every": 150},
    {"optimizer": "momentum", "lr": 0.01},
    {"optimizer": "adagrad", "lr": 0.01, "clip": 1.0}])
def test_two_and_two_epochs_are_four(lists, tmp_path, options):
    trainer(**options).fit(lists, epochs=4, out=tmp_path / "whole")
    trainer(**options).fit(lists, epochs=2, out=tmp_path / "parts")
    trainer(**options).fit(lists, epochs=4, out=tmp_path / "parts", resume=True)
    for name in ("checkpoint.safetensors", "best.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes(), name
    whole, parts = (read_json_lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts"))
    for name in ("epoch", "train_loss", "valid_loss", "updates", "staleness", "messages"):
        assert [row[name] for row in whole] == [row[name] for row in parts], name


class StopAfter(Observer):
    """Interrupts, as Ctrl-C does, when an epoch begins."""

    def __init__(self, epoch):
        self.epoch = epoch

    def epoch_started(self, epoch, epochs, instances):
        if epoch > self.epoch:
            raise KeyboardInterrupt


def test_resumed_cosine_equals_an_uninterrupted_run(lists, tmp_path):
    """The schedule's length is the total, so the total has to be the same both times."""
    options = {"lr_schedule": "cosine", "lr": 0.01}
    trainer(**options).fit(lists, epochs=4, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trainer(**options).fit(lists, epochs=4, out=tmp_path / "parts", observers=[StopAfter(2)])
    trainer(**options).fit(lists, epochs=4, out=tmp_path / "parts", resume=True)
    whole, parts = ((tmp_path / name / "checkpoint.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_resume_does_epochs_again_that_no_checkpoint_followed(lists, run_dir):
    trainer().fit(lists, epochs=1, out=run_dir)
    metrics = run_dir / "metrics.jsonl"
    lost = metrics.read_text().replace('"epoch": 1', '"epoch": 2')
    metrics.write_text(metrics.read_text() + lost + lost[:40])
    trainer().fit(lists, epochs=3, out=run_dir, resume=True)
    assert [row["epoch"] for row in read_json_lines(metrics)] == [1, 2, 3]


def test_target_stops_and_a_resumed_run_stays_stopped(lists, run_dir):
    history = trainer().fit(lists, epochs=5, target=1e-6, out=run_dir)
    assert history.reached_target and len(history.epochs) == 1
    history = trainer().fit(lists, epochs=5, target=1e-6, out=run_dir, resume=True)
    assert history.reached_target and history.epochs == []


def test_metrics_are_those_promised(lists, run_dir):
    history = trainer(workers=2).fit(lists, epochs=2, out=run_dir)
    rows = read_json_lines(run_dir / "metrics.jsonl")
    assert [row["epoch"] for row in rows] == [1, 2] and rows == json.loads(json.dumps(history.epochs))
    for row in rows:
        assert set(row) == KEYS
        assert row["metric_name"] == "accuracy" and row["instances"] == 300
        assert len(row["busy"]) == 2 and all(0 <= share <= 1 for share in row["busy"])
        assert set(row["updates"]) == set(row["staleness"]) == {"embedding", "cell", "classifier"}


def test_one_key_in_flight_is_never_stale_in_the_classifier(lists):
    assert trainer(max_active_keys=1, min_update_frequency=1).fit(lists, epochs=1).last["staleness"]["classifier"] == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_trace_is_valid_and_slices_of_a_worker_do_not_overlap(lists, run_dir, workers):
    traced = trainer(workers=workers, trace=True)
    nodes = {node.name: node for node in traced.model.nodes}
    nodes["embedding"].worker, nodes["cell"].worker = 0, workers - 1   # measured, so small a model may be best off on one
    traced.fit(part(lists, 40), epochs=2, out=run_dir)
    events = json.loads((run_dir / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["tid"] for event in slices} == set(range(workers))
    for worker in range(workers):
        mine = sorted((e["ts"], e["ts"] + e["dur"], e["name"]) for e in slices if e["tid"] == worker)
        for (_, end, name), (start, _, following) in pairwise(mine):
            assert start >= end - 1e-3, f"{following} starts {end - start} us before {name} ends"


def test_divergence_names_node_instance_and_update(lists, run_dir):
    with pytest.raises(DivergenceError, match=r"node '\w+'.*instance \d+.*update \d+.*(not finite|beyond all use)") as caught:
        trainer(optimizer="sgd", lr=1e30, min_update_frequency=1).fit(lists, epochs=2, out=run_dir)
    assert caught.value.node and caught.value.instance >= 0


def test_large_weights_show_in_the_rows_that_learn(lists):
    """Of an embedding only these are looked at: row 14 is no token's, and costs nothing either."""
    for row, fails in ((14, False), (slice(0, 10), True)):
        model = rnn(vocab=15, embedding=16, hidden=16).initialise(0)
        model.parameters["embedding.weight"][row] = 1e6
        sgd = Trainer(model, optimizer="sgd", lr=1e-12, max_active_keys=4, min_update_frequency=10)
        if fails:
            with pytest.raises(DivergenceError, match="'embedding'.*beyond all use"):
                sgd.fit(lists.train.take(40), epochs=1)
        else:
            sgd.fit(lists.train.take(40), epochs=1)


@pytest.mark.parametrize("epochs", [0, -1, 1.5, True, "3"])
def test_epochs_must_be_whole_and_positive(lists, epochs):
    with pytest.raises(SettingError, match="epochs"):
        trainer().fit(lists, epochs=epochs)


def test_resume_needs_a_directory(lists):
    with pytest.raises(SettingError, match="resume needs out"):
        trainer().fit(lists, resume=True)
