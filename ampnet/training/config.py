"""What a run is made of: task default, then TOML file, then option, each checked as it comes; written and read back.

Imports neither numpy nor kernels, so a wrong option is told before anything slow begins.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..errors import SettingError
from .settings import LARGEST_NUMBER, LARGEST_WHOLE, Settings, beyond

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

RUN_KEYS = ("epochs", "target", "limit", "data", "placement")
RECORDED = ("task", "versions")  # in the config.toml of a run, which serves as --config too
FIXED = ("seed", "optimizer", "limit")  # cannot change when a run is resumed; nor can the model


@dataclass(frozen=True)
class RunConfig:
    """Everything needed to repeat a run.

    model: options of the task's model and data by name; target: validation metric at which to stop, or None; limit: the
    first training instances to use, or None for all; data: folder of the data files as the user gave it, or None;
    placement: node name -> worker, or None for the default.
    """

    task: str
    settings: Settings
    model: dict
    epochs: int
    target: float | None = None
    limit: int | None = None
    data: str | None = None
    placement: dict | None = None
    versions: dict = field(default_factory=dict)

    def values(self):
        """All keys of the TOML form but the tables; those that are None left out."""
        own = {name: getattr(self, name) for name in ("task", *RUN_KEYS) if name != "placement"}
        return {k: v for k, v in (own | self.model | self.settings.as_dict()).items() if v is not None}

    def to_toml(self):
        lines = [f"{name} = {_toml(value)}" for name, value in self.values().items()]
        for table in ("placement", "versions"):
            entries = getattr(self, table)
            if entries:
                lines += ["", f"[{table}]"] + [f"{_key(name)} = {_toml(value)}" for name, value in entries.items()]
        return "\n".join(lines) + "\n"


def resolve(task: str, model_options: dict[str, Callable], layers: list[tuple[str | None, dict]]) -> RunConfig:
    """Lay dicts over one another, the last one wins, and check each.

    model_options: name -> check (name, value), which raises SettingError: `whole`, `share`, `text`; layers: (origin,
    values); the origin, a file's name, opens the error message; None is for options.
    Raises SettingError for an unknown key, a wrong type, a value out of range.
    """
    known = (*Settings.names(), *RUN_KEYS, *model_options)
    values = {}
    for origin, given in layers:
        try:
            values |= _known_only(task, given, known, is_file=origin is not None)
            config = _build(task, model_options, values)
        except SettingError as error:
            raise SettingError(f"{origin}: {error}" if origin else str(error)) from None
    return config


def _known_only(task, given, known, is_file):
    """The values of a layer, with what a run's config.toml only records taken out."""
    if is_file and given.get("task", task) != task:
        raise SettingError(f"is for the task {given['task']!r}, not {task!r}")
    for name in given:
        if name not in known and not (is_file and name in RECORDED):
            raise SettingError(f"unknown key '{name}'; known: {', '.join(sorted(known))}")
    return {name: value for name, value in given.items() if name in known}


def _build(task, model_options, values):
    settings = Settings(**{k: v for k, v in values.items() if k in Settings.names()})
    whole("epochs", values.get("epochs"))
    for name, check in model_options.items():
        check(name, values.get(name))
    if "limit" in values:
        whole("limit", values["limit"])
    target, data, placement = values.get("target"), values.get("data"), values.get("placement")
    if target is not None and (type(target) not in (int, float) or not 0 < target <= LARGEST_NUMBER):
        raise SettingError(f"target must be a number greater than 0, got {target!r}")
    if data is not None:
        text("data", data)
    if placement is not None and not isinstance(placement, dict):
        raise SettingError(f"placement must be a table of node = worker, got {placement!r}")
    for node, worker in (placement or {}).items():
        if type(worker) is not int or worker < 0:
            raise SettingError(f"placement of '{node}' must be the number of a worker, from 0 on, got {worker!r}")
    return RunConfig(task, settings, {name: values[name] for name in model_options}, values["epochs"], target,
                     values.get("limit"), data, placement, versions())


def whole(name, value):
    """A check of an option: a whole number of at least 1."""
    if type(value) is not int or not 1 <= value <= LARGEST_WHOLE:
        raise SettingError(f"{name} must be a whole number of at least 1{beyond(value)}, got {value!r}")


def share(name, value):
    """A check of an option: a number of at least 0 and below 1."""
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise SettingError(f"{name} must be a number of at least 0 and below 1, got {value!r}")


def text(name, value):
    """A check of an option: a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise SettingError(f"{name} must be a name, got {value!r}")


def check_resumable(old: RunConfig, new: RunConfig, folder):
    """Raise SettingError where a run cannot go on with other options: they would make it another run."""
    before, after = old.values(), new.values()
    for name in (*new.model, *FIXED):
        if before.get(name) != after.get(name):
            raise SettingError(f"{folder}: cannot be resumed with {name} {after.get(name, 'none')}; "
                               f"the run has {before.get(name, 'none')}")


def read_toml(path) -> dict:
    """A TOML file as a dict; SettingError with the file's name."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise SettingError(f"{path}: is nested too deeply") from None
    except ValueError as error:  # TOML and UTF-8 errors both are
        raise SettingError(f"{path}: is not TOML: {' '.join(str(error).split())}") from None


def versions() -> dict:
    """Versions of what the numbers of a run depend on."""
    return {name: _version(name) for name in ("ampnet", "numpy", "numba")} | {"python": platform.python_version()}


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _key(name):
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value):
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
