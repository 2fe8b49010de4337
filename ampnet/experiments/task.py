"""What a task is: defaults, data, a model, and metrics of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from ..training.config import RunConfig, read_toml, resolve


@dataclass(frozen=True)
class Task:
    """A task of `ampnet train`. Its defaults are in `NAME.toml` beside this file.

    model_options: name -> check of the options its data and model take; load_data: (data folder or None, RunConfig) ->
    Dataset; build: (these options, the data's meta) -> Graph; metrics: (the data's meta) -> function (predictions by loss
    name, Instances) -> further metrics by name, or None. All import what they need when called.
    """

    name: str
    model_options: dict[str, Callable]
    load_data: Callable
    build: Callable
    metrics: Callable | None = None

    @property
    def defaults(self) -> dict:
        return read_toml(files(__package__) / f"{self.name}.toml")

    def resolve(self, *layers: tuple[str | None, dict]) -> RunConfig:
        """The defaults with further (origin, values) laid over them, checked."""
        return resolve(self.name, self.model_options, [(f"{self.name}.toml", self.defaults), *layers])

    def metrics_for(self, meta: dict) -> Callable | None:
        return None if self.metrics is None else self.metrics(meta)
