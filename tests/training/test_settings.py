"""Settings refuse what cannot be, by name."""

import pytest

from ampnet import SettingError, Trainer
from ampnet.graphs import rnn
from ampnet.training.settings import Settings


@pytest.mark.parametrize("name,value", [
    ("workers", 0), ("workers", True), ("workers", 1.0), ("max_active_keys", 0), ("min_update_frequency", -1),
    ("max_batch", "8"), ("seed", -1), ("optimizer", "adamw"), ("lr", 0), ("lr", float("nan")), ("lr", float("inf")),
    ("lr", "fast"), ("lr_schedule", "linear"), ("clip", -1), ("momentum", 1), ("step_factor", 0), ("coalesce", 1),
    ("trace", "yes"), ("weight_decay", -0.1), ("warmup", 1.5)])
def test_a_wrong_value_is_named(name, value):
    with pytest.raises(SettingError) as caught:
        Settings(**{name: value})
    assert name in str(caught.value) and repr(value) in str(caught.value) and "\n" not in str(caught.value)


def test_step_needs_its_length():
    with pytest.raises(SettingError, match="step_every"):
        Settings(lr_schedule="step")


def test_trainer_names_an_unknown_option():
    with pytest.raises(SettingError, match="unknown option 'learning_rate'"):
        Trainer(rnn(embedding=4, hidden=4), learning_rate=1)
