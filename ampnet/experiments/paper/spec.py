"""What is trained for a row: a task with some options changed. It knows its directory's name and its command."""

import re
from dataclasses import dataclass, field

from .. import find

AMPNET, TORCH = "ampnet", "torch"


@dataclass(frozen=True)
class Spec:
    """A run.

    options: changed from the task's defaults, by name; kind: "ampnet", or "torch", the batched baseline on `threads` threads.
    Raises SettingError where an option cannot be.
    """

    task: str
    options: dict = field(default_factory=dict)
    seed: int = 0
    kind: str = AMPNET
    threads: int = 1

    @property
    def config(self):
        return find(self.task).resolve((None, {**self.options, "seed": self.seed}))

    @property
    def changed(self) -> dict:
        """The options that differ from the defaults; and always max_active_keys, in which rows differ."""
        defaults, now = Spec(self.task).config.values(), self.config.values()
        always = ("max_active_keys",) if self.kind == AMPNET else ()
        return {name: now[name] for name in sorted({*self.options, *always})
                if name in always or now[name] != defaults.get(name)}

    @property
    def directory(self) -> str:
        """Of the run, under `runs/`; the same for the same run, in whatever table: `qm9_max-active-keys-4_seed-0`."""
        if self.kind == TORCH:
            parts = [self.task, f"pytorch-{self.threads}-thread{'s' * (self.threads > 1)}"]
        else:
            parts = [self.task]
        parts += [_part(name, value) for name, value in self.changed.items()]
        return "_".join([*parts, f"seed-{self.seed}"])

    @property
    def command(self) -> str:
        """What to type to train this run by itself."""
        program = "ampnet train" if self.kind == AMPNET else f"python -m {__package__}.baseline --threads {self.threads}"
        options = [option for name, value in self.changed.items() for option in _flag(name, value)]
        return " ".join([program, self.task, *options, "--seed", str(self.seed), "--out", f"runs/{self.directory}"])


def _part(name, value):
    """A changed option as a part of a file name."""
    name = name.replace("_", "-")
    if isinstance(value, bool):
        return name if value else f"no-{name}"
    return f"{name}-{re.sub(r'[^A-Za-z0-9.]+', '-', str(value))}"


def _flag(name, value):
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", str(value)]
