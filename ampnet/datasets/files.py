"""Files of data, each packed by gzip (`NAME.gz`) or not: found, read, compared with what was published, and where from."""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from ampnet.errors import DataError

LONGEST_REASON = 200
"""Characters of another library's error that are shown."""


@dataclass(frozen=True)
class Download:
    """A file that is published.

    name : of the file, as it is kept.
    addresses : tried in turn; those that end in "/" lack the name.
    sha256 : of the file.
    content : sha256 of the file without its gzip, if it has one.
    members : if it is a zip archive, what is kept in its place: member -> sha256.
    instead : names of files of which any makes this one needless.
    """

    name: str
    addresses: tuple[str, ...]
    sha256: str
    content: str | None = None
    members: dict[str, str] = field(default_factory=dict)
    instead: tuple[str, ...] = ()

    def kept(self) -> dict[str, str]:
        """Name of each file kept, as `find` takes it -> sha256 of its content, unpacked."""
        if self.members:
            return {f"{PurePosixPath(member).name}.gz": sha256 for member, sha256 in self.members.items()}
        return {self.name: self.content or self.sha256}


def first(folder: str | Path, names: Iterable[str]) -> Path | None:
    """The first of these files that is in the folder."""
    paths = (Path(folder) / name for name in names)
    return next((path for path in paths if path.is_file()), None)


def find(folder: str | Path, name: str) -> Path:
    """The file `name`, or else that without the `.gz` of this name; a `DataError` if the folder has neither."""
    found = first(folder, (name, name.removesuffix(".gz")))
    if found is None:
        raise DataError(f"{Path(folder) / name}: no such file")
    return found


def read(path: str | Path) -> bytes:
    """Content of a file, unpacked if its name ends in `.gz`; a `DataError` if it is missing or damaged."""
    path = Path(path)
    with _errors_of(path):
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix == ".gz" else raw


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Number, from 1 up, and text of each line of a UTF-8 file, unpacked if its name ends in `.gz`.

    Only line feeds end a line, as some words hold what else Unicode counts as one; a carriage return before goes too.

    Raises
    ------
    DataError : the file is missing, damaged or not UTF-8.
    """
    path = Path(path)
    number = 0
    try:
        with _errors_of(path), (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line {number}: expected UTF-8, found byte 0x{error.object[error.start]:02x}") from None


def read_arrays(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Those of the arrays `names` that an npz file has. Nothing is unpickled, and no memory taken that the file does not fill.

    Raises
    ------
    DataError : the file is missing or damaged, or an array is of Python objects.
    """
    path = Path(path)
    with _errors_of(path):
        raw = path.read_bytes()
    # not by np.load, which tries other formats on what is no zip file
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = set(archive.namelist())
            return {name: _array(archive.read(f"{name}.npy")) for name in names if f"{name}.npy" in members}
    except Exception as error:  # zipfile and NumPy have one of their own, or of Python's parser, for each kind of damage
        raise DataError(f"{path}: expected a .npz file of numbers, found it truncated or corrupt ({one_line(error)})") from None


def _array(raw: bytes) -> np.ndarray:
    """An array in NumPy's own format, whose size must be that of its bytes: a damaged header could ask for any amount."""
    file = io.BytesIO(raw)
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise ValueError(f"version {version} of the array format")
    shape, _, dtype = headers[version](file)
    size = len(raw) - file.tell()
    if not dtype.hasobject and (min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size):
        raise ValueError(f"{size} bytes for {dtype} {shape}")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def one_line(error: Exception) -> str:
    """What an error of another library says, fit to be part of a message: in one line that is not long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def verify(content: bytes, where: str | Path, sha256: str):
    """A `DataError` if this content of a file is not the published one."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DataError(f"{where}: expected unpacked bytes of sha256 {sha256}, found {found}")


def find_intact(folder: str | Path, name: str, sha256: str) -> Path | None:
    """What `find` finds, if its content is the published one."""
    try:
        path = find(folder, name)
        verify(read(path), path, sha256)
    except DataError:
        return None
    return path


@contextmanager
def _errors_of(path: Path):
    """Turns errors of reading a file into `DataError`."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: expected a gzip file, found it truncated or corrupt ({error})") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
