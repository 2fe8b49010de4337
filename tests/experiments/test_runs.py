"""Runs of a reproduction: trained once, shared, gone on with, and failing without harm to the rest."""

import json
import shlex
import sys

import pytest
from click.testing import CliRunner

from ampnet.errors import SettingError
from ampnet.experiments import run
from ampnet.experiments.folder import CHECKPOINT, CONFIG
from ampnet.experiments.paper import baseline, runs, sizes, table1
from ampnet.experiments.paper.lab import Lab, Row
from ampnet.experiments.paper.runs import DONE, Result
from ampnet.experiments.paper.spec import TORCH, Spec
from ampnet.experiments.paper.table1 import note, seconds_to_target

DIVERGING = {"lr": 1e30, "optimizer": "sgd", "clip": 0.0}


def refuse_training(monkeypatch):
    def train(*_):
        raise AssertionError("trained again")
    monkeypatch.setattr(run, "train", train)


def metrics(result, *names):
    return [[row[name] for name in names] for row in result.history]


def test_a_finished_run_is_read_back_by_whoever_wants_it(lab, tiny, tmp_path, monkeypatch):
    result = lab.train(tiny())
    assert not result.failed and result.epochs == 2 and not result.reached
    assert result.seconds == pytest.approx(sum(row["seconds"] for row in result.history))
    done = json.loads((result.folder / DONE).read_text())
    assert done["machine"]["versions"]["numba"] and done["wall_seconds"] > 0 and not done["resumed"]
    refuse_training(monkeypatch)
    with Lab("another", True, [0], tmp_path, None, print) as other:
        assert other.train(tiny()).history == result.history


def test_an_interrupted_run_goes_on_and_ends_as_if_it_never_was(lab, tiny, tmp_path):
    straight = lab.train(tiny(epochs=3, lr_schedule="constant"))

    def stop(text):
        if text.startswith("epoch 1/"):
            raise KeyboardInterrupt
    spec = tiny(epochs=3, lr_schedule="constant")
    with pytest.raises(KeyboardInterrupt), Lab("b", True, [0], tmp_path / "other", None, stop) as other:
        other.train(spec)
    folder = tmp_path / "other" / "runs" / spec.directory
    assert (folder / CHECKPOINT).exists() and not (folder / DONE).exists()
    with Lab("b", True, [0], tmp_path / "other", None, print) as other:
        resumed = other.train(spec)
    assert metrics(resumed, "epoch", "valid_metric", "updates") == metrics(straight, "epoch", "valid_metric", "updates")
    assert json.loads((folder / DONE).read_text())["resumed"]


def test_rows_take_turns_and_a_diverging_one_says_so_once(lab, tiny, monkeypatch):
    good, bad = tiny().options, tiny(**DIVERGING).options
    results = lab.train_rows([Row("good", "list-reduction", good), Row("bad", "list-reduction", bad)])
    started = [line.split("_")[1:] for line in lab.told if line.startswith("a: ")]
    assert [parts[-1] for parts in started] == ["seed-0", "seed-0", "seed-1", "seed-1"]
    assert [any("lr-" in part for part in parts) for parts in started] == [False, True, True, False]
    assert not any(r.failed for r in results[0]) and all("update" in r.failed for r in results[1])
    assert note(results[1]) and seconds_to_target(results[1]) is None and len(lab.failed) == 2
    refuse_training(monkeypatch)
    assert lab.train(tiny(**DIVERGING)).failed == results[1][0].failed


def test_runs_beside_one_another_are_the_same_runs(lab, tiny, tmp_path, monkeypatch):
    rows = [Row("one", "list-reduction", tiny().options), Row("another", "list-reduction", tiny(max_active_keys=2).options),
            Row("diverging", "list-reduction", tiny(**DIVERGING).options),
            Row("of two workers", "list-reduction", tiny(workers=2).options)]
    alone = lab.train_rows(rows)
    with Lab("a", True, [0, 1], tmp_path / "beside", None, lab.told.append, jobs=2) as other:
        beside = other.train_rows(rows)
    names = ("epoch", "valid_metric", "train_loss", "updates")
    for row, again in zip(alone[:3], beside[:3], strict=True):   # two workers are not repeatable
        assert [metrics(r, *names) for r in row] == [metrics(r, *names) for r in again]
        assert [r.failed for r in row] == [r.failed for r in again]
    done = [[json.loads((r.folder / DONE).read_text())["at_a_time"] for r in row] for row in beside]
    assert done == [[2, 2]] * 3 + [[1, 1]]
    refuse_training(monkeypatch)
    with Lab("b", True, [0, 1], tmp_path / "beside", None, print, jobs=2) as other:
        assert [[r.history for r in row] for row in other.train_rows(rows)] == [[r.history for r in row] for row in beside]


@pytest.mark.parametrize("task", sizes.FULL)
@pytest.mark.parametrize("quick", [False, True])
def test_the_command_of_a_pytorch_row_is_of_that_run(task, quick, monkeypatch):
    made = []
    monkeypatch.setattr(runs, "train", lambda spec, folder, *_: made.append((spec, folder)) or Result(spec, (), None, folder))
    rows = [row for row in table1.rows_of(task, quick) if row.kind == TORCH]
    for row in rows:
        python, _, module, *words = shlex.split(row.spec(3).command)
        assert (python, module) == ("python", baseline.__name__)
        assert CliRunner().invoke(baseline.main, words).exit_code == 0
    assert [spec.directory for spec, _ in made] == [row.spec(3).directory for row in rows] == [f.name for _, f in made]
    assert [spec.config for spec, _ in made] == [row.spec(3).config for row in rows] and rows


def test_a_target_not_reached_is_noted_and_one_reached_is_timed(lab, tiny):
    missed, = lab.train_rows([Row("missed", "list-reduction", tiny(target=1.0).options)])
    assert note(missed).startswith("target not reached in 2 epochs by 2 of 2 seeds") and seconds_to_target(missed) is None
    got, = lab.train_rows([Row("reached", "list-reduction", tiny(target=0.01).options)])
    assert note(got) is None and [r.epochs for r in got] == [1, 1]
    seconds = seconds_to_target(got)
    assert seconds.lowest == min(r.history[0]["seconds"] for r in got) <= seconds.median <= seconds.highest


def test_a_run_made_with_other_defaults_is_refused(lab, tiny):
    path = lab.train(tiny()).folder / CONFIG
    path.write_text(path.read_text().replace("lr = 0.001", "lr = 0.002"))
    with pytest.raises(SettingError, match=r"lr 0.002, now it is 0.001"):
        lab.train(tiny())


def test_without_pytorch_its_row_says_so_and_is_tried_again(lab, tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "ampnet.baselines", None)
    spec = Spec("list-reduction", tiny().options, 0, TORCH)
    result = lab.train(spec)
    assert "PyTorch" in result.failed and not (result.folder / DONE).exists()
    assert [line for line in lab.told if line.startswith("warning:")] == [f"warning: {spec.directory}: {result.failed}"]


def test_missing_data_are_told_before_anything_is_loaded(tmp_path, monkeypatch):
    refuse_training(monkeypatch)
    with Lab("a", True, [0], tmp_path, str(tmp_path), print) as lab:
        assert "ampnet data fetch mnist" in lab.train(Spec("mnist")).failed
        assert lab._places == {"list-reduction": str(tmp_path), "babi15": None}   # this one is generated


def test_directories_are_readable_and_the_same_for_the_same_run(tiny):
    assert tiny(limit=7).directory == "list-reduction_epochs-2_hidden-8_limit-7_max-active-keys-4_target-1.0_seed-0"
    assert Spec("qm9", {"max_active_keys": 8}).directory == Spec("qm9").directory == "qm9_max-active-keys-8_seed-0"
    assert Spec("qm9", {"coalesce": False}, 2).directory == "qm9_no-coalesce_max-active-keys-8_seed-2"
    assert Spec("mnist", {}, 1, TORCH, 2).directory == "mnist_pytorch-2-threads_seed-1"
