"""Configuration: precedence, errors that name file and key, and the way through TOML and back."""

import pytest

from ampnet import SettingError
from ampnet.experiments import TASKS, find
from ampnet.training.config import check_resumable, read_toml

TASK = TASKS["list-reduction"]


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path), read_toml(path)


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_defaults_are_valid(task):
    config = task.resolve()
    assert set(config.model) == set(task.model_options) and config.epochs >= 1 and config.target > 0


def test_a_placement_goes_through_toml_and_back(tmp_path):
    config = TASK.resolve((None, {"placement": {"cell": 1, "pick-tokens": 0, "a b": 1}}))
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    assert TASK.resolve((str(path), read_toml(path))).placement == {"cell": 1, "pick-tokens": 0, "a b": 1}
    with pytest.raises(SettingError, match="placement must be a table"):
        TASK.resolve((None, {"placement": 3}))


@pytest.mark.parametrize("task, key, value", [("sentiment", "dropout", 1), ("sentiment", "dropout", -0.1),
                                              ("sentiment", "embeddings", ""), ("babi15", "fold", 0), ("qm9", "steps", True)])
def test_a_tasks_own_options_are_checked(task, key, value):
    with pytest.raises(SettingError, match=key):
        TASKS[task].resolve((None, {key: value}))


def test_option_goes_before_file_before_default(tmp_path):
    default = TASK.resolve()
    config = TASK.resolve(written(tmp_path, "lr = 0.5\nhidden = 7\n"), (None, {"lr": 0.25}))
    assert (config.settings.lr, config.model["hidden"]) == (0.25, 7)
    assert config.settings.optimizer == default.settings.optimizer


@pytest.mark.parametrize("line,key", [
    ("hiden = 3", "unknown key 'hiden'"), ("layers = 3", "unknown key 'layers'"), ("lr = 'fast'", "lr"),
    ("hidden = 0", "hidden"), ("hidden = 1.5", "hidden"), ("hidden = true", "hidden"), ("epochs = 0", "epochs"),
    ("target = 'high'", "target"), ("target = nan", "target"), ("limit = 0", "limit"), ("data = 3", "data"),
    ("optimizer = ['sgd']", "optimizer"), ("lr = nan", "lr"), ("coalesce = 1", "coalesce"), ("task = 'mnist'", "mnist"),
    ("[settings]\nlr = 1", "unknown key 'settings'")])
def test_file_errors_name_file_and_key(tmp_path, line, key):
    with pytest.raises(SettingError) as caught:
        TASK.resolve(written(tmp_path, line))
    assert str(caught.value).startswith(str(tmp_path / "mine.toml")) and key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_file_value_is_told_even_if_an_option_replaces_it(tmp_path):
    with pytest.raises(SettingError, match="mine.toml: lr"):
        TASK.resolve(written(tmp_path, "lr = -1"), (None, {"lr": 0.1}))


def test_option_errors_name_no_file():
    with pytest.raises(SettingError, match="^hidden must be a whole number of at least 1, got 0$"):
        TASK.resolve((None, {"hidden": 0}))


@pytest.mark.parametrize("content,what", [(b"lr = ", "not TOML"), (b"\xff\xfe", "not TOML"), (None, "cannot be read")])
def test_unreadable_files(tmp_path, content, what):
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingError, match=what) as caught:
        read_toml(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_config_survives_toml(tmp_path):
    config = TASK.resolve((None, {"lr": 1e-7, "limit": 5, "data": 'a "b"\\ü\t\x7f', "coalesce": False, "seed": 9}))
    again = TASK.resolve(written(tmp_path, config.to_toml()))
    assert again == config
    assert set(read_toml(tmp_path / "mine.toml")["versions"]) == {"ampnet", "numpy", "numba", "python"}


@pytest.mark.parametrize("change", [{"hidden": 3}, {"seed": 3}, {"optimizer": "sgd"}, {"limit": 3}, {"embedding": 3}])
def test_a_run_cannot_become_another(change):
    with pytest.raises(SettingError, match=f"somewhere.*{next(iter(change))} 3|optimizer sgd"):
        check_resumable(TASK.resolve(), TASK.resolve((None, change)), "somewhere")


def test_a_run_may_go_on_longer_with_more_workers():
    check_resumable(TASK.resolve(), TASK.resolve((None, {"epochs": 99, "workers": 2, "lr": 0.5})), "somewhere")


def test_unknown_task():
    with pytest.raises(SettingError, match="unknown task 'mnits'; known: mnist"):
        find("mnits")
