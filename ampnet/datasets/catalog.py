"""Which tasks there are, and where their files are looked for.

In this order: the folder given (`--data`), which must have them; then `$AMPNET_DATA`; then the user's cache.
Each holds a folder a task, such as `mnist/train-images-idx3-ubyte.gz`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ampnet.datasets import list_reduction, mnist
from ampnet.datasets.columns import Dataset
from ampnet.errors import DataError, SettingError


@dataclass(frozen=True)
class FileTask:
    """A task whose data are files in a folder named like the task.

    files: name -> sha256 of the download; addresses: prefixes of a name, tried in turn; load, check: of the folder;
    find: (folder, name) -> path or `DataError`; intact: whether the file at a path is whole.
    """

    licence: str
    files: dict[str, str]
    addresses: tuple[str, ...]
    load: Callable[[Path], Dataset]
    check: Callable[[Path], list[str]]
    find: Callable[[Path, str], Path]
    intact: Callable[[Path], bool]


@dataclass(frozen=True)
class GeneratedTask:
    """A task whose data are made from a seed."""

    load: Callable[[int], Dataset]
    check: Callable[[], list[str]]
    licence: str = "none needed"


TASKS = {
    "mnist": FileTask(
        licence=mnist.LICENCE,
        files=mnist.PACKED_SHA256,
        addresses=mnist.ADDRESSES,
        load=mnist.load,
        check=mnist.check,
        find=mnist.find,
        intact=mnist.intact,
    ),
    "list-reduction": GeneratedTask(load=list_reduction.load, check=list_reduction.check),
}


class Row(NamedTuple):
    """A line of `ampnet data list`."""

    task: str
    files: str
    found: str
    licence: str


def load(task: str, data: str | Path | None = None, seed: int = 0) -> Dataset:
    """The data set of a task.

    Parameters
    ----------
    task : "mnist" or "list-reduction".
    data : folder with a folder a task; None looks in `$AMPNET_DATA`, then in the user's cache.
    seed : of generated data; files do not depend on it.

    Raises
    ------
    SettingError : there is no such task.
    DataError : its files are missing or damaged.
    """
    entry = _entry(task)
    if isinstance(entry, GeneratedTask):
        return entry.load(seed)
    return entry.load(locate(task, data))


def locate(task: str, data: str | Path | None = None) -> Path:
    """The folder with all files of a task, such as `DATA/mnist`.

    Raises
    ------
    SettingError : there is no such task, or it has no files.
    DataError : a file is missing; names it, where it was looked for, and how to get it.
    """
    entry = _file_entry(task)
    missing = []
    for name, root in _places(data):
        problem = _missing(entry, root / task)
        if not problem:
            return root / task
        missing.append(f"{name} ({problem})")
    raise DataError(f"{task}: data not found; looked in {', '.join(missing)}; `ampnet data fetch {task}` downloads it")


def describe(data: str | Path | None = None) -> list[Row]:
    """A row a task; `found` is the folder, or "missing", or "built in"."""
    return [_describe(task, entry, data) for task, entry in TASKS.items()]


def check(task: str, data: str | Path | None = None) -> list[str]:
    """Parse and verify all of a task's data; returns lines to print. Errors as those of `load`."""
    entry = _entry(task)
    if isinstance(entry, GeneratedTask):
        return entry.check()
    folder = locate(task, data)
    return [*entry.check(folder), f"{task}: whole, in {folder}"]


def fetch(task: str, data: str | Path | None = None, progress: bool = False) -> list[str]:
    """Download what is missing or damaged of a task's files, checked by sha256; returns lines to print.

    They go to the first place where they are looked for: `data`, else `$AMPNET_DATA`, else the user's cache.

    Raises
    ------
    SettingError : there is no such task.
    DataError : no address gave the file.
    """
    entry = _entry(task)
    if isinstance(entry, GeneratedTask):
        return [f"{task}: generated, nothing to download"]
    folder = next(_places(data))[1] / task
    return [_fetch_file(entry, folder, name, progress) for name in entry.files]


def _fetch_file(entry: FileTask, folder: Path, name: str, progress: bool) -> str:
    if entry.intact(folder / name):
        return f"{folder / name}: already there"
    import pooch  # here, as it brings a network stack along

    problems = []
    for address in entry.addresses:
        try:
            known = f"sha256:{entry.files[name]}"
            pooch.retrieve(address + name, known, fname=name, path=folder, progressbar=progress)
            return f"{folder / name}: downloaded from {address}"
        except (OSError, ValueError) as error:  # network and disk; wrong checksum
            problems.append(f"{address}: {' '.join(str(error).split())}")
    raise DataError(f"{folder / name}: no address gave this file: {'; '.join(problems)}")


def _describe(task: str, entry: FileTask | GeneratedTask, data) -> Row:
    if isinstance(entry, GeneratedTask):
        return Row(task, "generated", "built in", entry.licence)
    try:
        found = str(locate(task, data))
    except DataError:
        found = "missing"
    return Row(task, f"{len(entry.files)} files", found, entry.licence)


def _entry(task: str) -> FileTask | GeneratedTask:
    if task not in TASKS:
        raise SettingError(f"unknown task {task!r}; known are {', '.join(TASKS)}")
    return TASKS[task]


def _file_entry(task: str) -> FileTask:
    entry = _entry(task)
    if isinstance(entry, GeneratedTask):
        raise SettingError(f"{task} is generated and has no files to look for")
    return entry


def _places(data):
    """(name for messages, folder), in order. A folder given is the only place: another would hide the mistake."""
    if data is not None:
        yield str(data), Path(data).expanduser()
        return
    if os.environ.get("AMPNET_DATA"):
        yield "$AMPNET_DATA", Path(os.environ["AMPNET_DATA"]).expanduser()
    import pooch  # here, as it brings a network stack along

    yield "the user's cache", Path(pooch.os_cache("ampnet"))


def _missing(entry: FileTask, folder: Path) -> str:
    """What is wrong with the first file that is not there; empty if all are."""
    for name in entry.files:
        try:
            entry.find(folder, name)
        except DataError as error:
            return str(error)
    return ""
