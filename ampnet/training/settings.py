"""The options of a training run, checked before anything starts."""

import sys
from dataclasses import asdict, dataclass, fields

from ..errors import SettingError

OPTIMIZERS = ("sgd", "momentum", "adagrad", "adam")
SCHEDULES = ("constant", "step", "cosine")
LARGEST_WHOLE = 2**31 - 1   # what the records of the machine, and the keys of random draws, have room for
LARGEST_NUMBER = sys.float_info.max


def beyond(value):
    """The rest of a message, for a whole number that is too large."""
    return f" and at most {LARGEST_WHOLE}" if type(value) is int and value > LARGEST_WHOLE else ""


@dataclass
class Settings:
    """See docs/training.md for what each option means. Lengths of the schedule are counted in training instances."""

    workers: int = 1
    max_active_keys: int = 16
    min_update_frequency: int = 100
    max_batch: int = 128
    replicas: int = 1
    coalesce: bool = True
    optimizer: str = "adam"
    lr: float = 1e-3
    lr_schedule: str = "constant"
    warmup: int = 0
    step_every: int = 0
    step_factor: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip: float = 0.0
    checkpoint_every: int = 0
    seed: int = 0
    trace: bool = False

    def __post_init__(self):
        for name in ("workers", "max_active_keys", "min_update_frequency", "max_batch", "replicas"):
            self._whole(name, 1)
        for name in ("warmup", "step_every", "checkpoint_every", "seed"):
            self._whole(name, 0)
        self._one_of("optimizer", OPTIMIZERS)
        self._one_of("lr_schedule", SCHEDULES)
        self._number("lr", lambda x: x > 0, "greater than 0")
        for name in ("clip", "weight_decay"):
            self._number(name, lambda x: x >= 0, "at least 0")
        self._number("momentum", lambda x: 0 <= x < 1, "at least 0 and below 1")
        self._number("step_factor", lambda x: 0 < x <= 1, "above 0 and at most 1")
        for name in ("coalesce", "trace"):
            if not isinstance(getattr(self, name), bool):
                raise SettingError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.lr_schedule == "step" and self.step_every == 0:
            raise SettingError("lr_schedule 'step' needs step_every, the training instances between two steps")

    def _whole(self, name, least):
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_WHOLE:
            raise SettingError(f"{name} must be a whole number of at least {least}{beyond(value)}, got {value!r}")

    def _number(self, name, holds, what):
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not holds(value) or value > LARGEST_NUMBER:
            raise SettingError(f"{name} must be a number {what}, got {value!r}")

    def _one_of(self, name, known):
        if getattr(self, name) not in known:
            raise SettingError(f"unknown {name} {getattr(self, name)!r}; known: {', '.join(known)}")

    @classmethod
    def names(cls):
        return [f.name for f in fields(cls)]

    as_dict = asdict
