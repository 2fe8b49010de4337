"""What a task is: defaults, data and a model."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from ..training.config import RunConfig, read_toml, resolve


@dataclass(frozen=True)
class Task:
    """A task of `ampnet train`. Its defaults are in `NAME.toml` beside this file.

    model_options: sizes its model takes; load_data: (data folder or None, RunConfig) -> Dataset; build: (sizes by name,
    the data's meta) -> Graph. Both import what they need when called.
    """

    name: str
    model_options: tuple[str, ...]
    load_data: Callable
    build: Callable

    @property
    def defaults(self) -> dict:
        return read_toml(files(__package__) / f"{self.name}.toml")

    def resolve(self, *layers: tuple[str | None, dict]) -> RunConfig:
        """The defaults with further (origin, values) laid over them, checked."""
        return resolve(self.name, self.model_options, [(f"{self.name}.toml", self.defaults), *layers])
