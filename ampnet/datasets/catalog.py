"""Which tasks there are, and where their files are looked for.

In this order: the folder given (`--data`), which must have them; then `$AMPNET_DATA`; then the user's cache.
Each holds a folder a task, such as `mnist/train-images-idx3-ubyte.gz`: `mnist`, `sst` (sentiment), `babi`, `qm9`; and
`glove`, whose vectors go with `sst`.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ampnet.datasets import babi, files, glove, list_reduction, mnist, qm9, qm9_files, sentiment
from ampnet.datasets.columns import Dataset
from ampnet.datasets.files import Download
from ampnet.errors import DataError, SettingError


@dataclass(frozen=True)
class FileTask:
    """A task whose data are files.

    folder : its name within a data folder.
    files : which there are, for `describe`.
    find : of the folder; raises a `DataError` if something is missing.
    load, check : of the folder, which is None where the files are optional and missing; `load` takes a seed too.
    optional : data are generated where there are no files.
    """

    licence: str
    folder: str
    files: str
    find: Callable[[Path], object]
    load: Callable[[Path | None, int], Dataset]
    check: Callable[[Path | None], list[str]]
    downloads: tuple[Download, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class GeneratedTask:
    """A task whose data are made from a seed."""

    load: Callable[[int], Dataset]
    check: Callable[[], list[str]]
    licence: str = "none needed"


def _load_sentiment(folder: Path, seed: int) -> Dataset:
    vectors = glove.find(folder.parent)
    return sentiment.load(folder, vectors and glove.read(vectors), seed)


def _check_sentiment(folder: Path) -> list[str]:
    lines, vectors = sentiment.check(folder), glove.find(folder.parent)
    if vectors:
        lines.append(f"sentiment: vectors of {len(glove.read(vectors).words):,} words in {vectors.name}")
    return lines


TASKS = {
    "mnist": FileTask(
        licence=mnist.LICENCE,
        folder="mnist",
        files=f"{len(mnist.CONTENT_SHA256)} files",
        find=lambda folder: [files.find(folder, name) for name in mnist.CONTENT_SHA256],
        load=lambda folder, seed: mnist.load(folder),
        check=mnist.check,
        downloads=mnist.DOWNLOADS,
    ),
    "list-reduction": GeneratedTask(load=list_reduction.load, check=list_reduction.check),
    "sentiment": FileTask(
        licence=sentiment.LICENCE,
        folder="sst",
        files=f"{len(sentiment.CONTENT_SHA256)} files",
        find=lambda folder: [sentiment.find(folder, name) for name in sentiment.CONTENT_SHA256],
        load=_load_sentiment,
        check=_check_sentiment,
        downloads=sentiment.DOWNLOADS,
    ),
    "babi15": FileTask(
        licence=babi.LICENCE,
        folder="babi",
        files="optional",
        find=babi.find,
        load=lambda folder, seed: babi.load(folder, seed=seed),
        check=babi.check,
        optional=True,
    ),
    "qm9": FileTask(
        licence=qm9.LICENCE,
        folder="qm9",
        files="npz, csv or xyz",
        find=qm9_files.find,
        load=lambda folder, seed: qm9.load(folder),
        check=qm9.check,
        downloads=qm9_files.DOWNLOADS,
    ),
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
    task : "mnist", "list-reduction", "sentiment", "babi15" or "qm9".
    data : folder with a folder a task; None looks in `$AMPNET_DATA`, then in the user's cache. If "babi15" is in
        neither of these two, it is generated.
    seed : of generated data, and of the rows of "sentiment" for words without a vector.

    Raises
    ------
    SettingError : there is no such task.
    DataError : its files are missing or damaged.
    """
    entry = _entry(task)
    if isinstance(entry, GeneratedTask):
        return entry.load(seed)
    return entry.load(find_optional(task, data), seed)


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
        try:
            entry.find(root / entry.folder)
            return root / entry.folder
        except DataError as error:
            missing.append(f"{name} ({error})")
    hint = "leave the folder out and it is generated" if entry.optional else f"`ampnet data fetch {task}` downloads it"
    raise DataError(f"{task}: data not found; looked in {', '.join(missing)}; {hint}")


def find_optional(task: str, data: str | Path | None = None) -> Path | None:
    """As `locate`, but None if the task can do without files and they are neither in `$AMPNET_DATA` nor in the cache.

    If `data` is given, they must be there.
    """
    try:
        return locate(task, data)
    except DataError:
        if data is None and _file_entry(task).optional:
            return None
        raise


def describe(data: str | Path | None = None) -> list[Row]:
    """A row a task; `found` is the folder, or "missing", or "generated" (no optional files), or "built in"."""
    return [_describe(task, entry, data) for task, entry in TASKS.items()]


def check(task: str, data: str | Path | None = None) -> list[str]:
    """Parse and verify all of a task's data; returns lines to print. Errors as those of `load`."""
    entry = _entry(task)
    if isinstance(entry, GeneratedTask):
        return entry.check()
    folder = find_optional(task, data)
    return [*entry.check(folder), f"{task}: whole, in {folder}" if folder else f"{task}: no files, so it is generated"]


def fetch(task: str, data: str | Path | None = None, progress: bool = False) -> list[str]:
    """Download what is missing or damaged of a task's files, checked by sha256; returns lines to print.

    They go to the first place where they are looked for: `data`, else `$AMPNET_DATA`, else the user's cache.

    Raises
    ------
    SettingError : there is no such task.
    DataError : no address gave the file, or it is not what was published, or cannot be written.
    """
    entry = _entry(task)
    if isinstance(entry, GeneratedTask):
        return [f"{task}: generated, nothing to download"]
    if not entry.downloads:
        return [f"{task}: nothing to download, graphs are generated where there are no files"]
    folder = next(_places(data))[1] / entry.folder
    return [line for download in entry.downloads for line in _fetch(download, folder, progress)]


def _fetch(download: Download, folder: Path, progress: bool) -> list[str]:
    other = files.first(folder, download.instead)
    if other:
        return [f"{folder / download.name}: not needed beside {other.name}"]
    intact = {name: files.find_intact(folder, name, sha256) for name, sha256 in download.kept().items()}
    lines = [f"{path}: already there" for path in intact.values() if path]
    if len(lines) == len(intact):
        return lines
    address = _retrieve(download, folder, progress)
    if not download.members:
        return [f"{folder / download.name}: downloaded from {address}"]
    paths = _unpack(download, folder, [name for name, path in intact.items() if not path])
    return [*lines, *(f"{path}: out of {download.name}, downloaded from {address}" for path in paths)]


def _retrieve(download: Download, folder: Path, progress: bool) -> str:
    """Download into the folder; returns the address which gave the file."""
    import pooch  # here, as it brings a network stack along

    problems = []
    for address in download.addresses:
        url = address + download.name if address.endswith("/") else address
        try:
            pooch.retrieve(url, f"sha256:{download.sha256}", fname=download.name, path=folder, progressbar=progress)
            return address
        except (OSError, ValueError) as error:  # network and disk; wrong checksum
            problems.append(f"{address}: {' '.join(str(error).split())}")
    raise DataError(f"{folder / download.name}: no address gave this file: {'; '.join(problems)}")


def _unpack(download: Download, folder: Path, wanted: list[str]) -> list[Path]:
    """Put members, whose names as kept are `wanted`, in the place of the archive; returns their paths."""
    archive = folder / download.name
    contents = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            for member, (name, sha256) in zip(download.members, download.kept().items(), strict=True):
                if name in wanted:
                    contents[name] = packed.read(member)
                    files.verify(contents[name], f"{archive}: {member}", sha256)
    except KeyError:
        raise DataError(f"{archive}: expected a member {member}, found none") from None
    paths = []
    try:
        for name, content in contents.items():
            path = folder / name.removesuffix(".gz")
            part = folder / f"{path.name}.part"
            part.write_bytes(content)
            part.replace(path)  # at once, so that half a file is not taken for the whole
            (folder / name).unlink(missing_ok=True)  # a damaged one, which would be read first
            paths.append(path)
        archive.unlink()
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror}") from None
    return paths


def _describe(task: str, entry: FileTask | GeneratedTask, data) -> Row:
    if isinstance(entry, GeneratedTask):
        return Row(task, "generated", "built in", entry.licence)
    try:
        found = str(find_optional(task, data) or "generated")
    except DataError:
        found = "missing"
    return Row(task, entry.files, found, entry.licence)


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
