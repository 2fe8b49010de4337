"""GloVe word vectors, from the text format of their authors or from a NumPy file with a word list beside it.

Text: `word v1 v2 ... vn` a line, split at spaces; `.txt` or `.txt.gz`. NumPy: the array `vectors` of `X.npz`, whose
row i belongs to line i of `X_words.txt.gz` (or its unpacked form). Both are UTF-8.

Source: J. Pennington, R. Socher, C. Manning, "GloVe: Global Vectors for Word Representation", EMNLP 2014; PDDL 1.0.
"""

from __future__ import annotations

import math
import reprlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ampnet.datasets import files
from ampnet.errors import DataError

DEFAULT = "glove.6B.50d.sst.npz"
"""50 numbers a word, only for the words of the Stanford Sentiment Treebank."""

LARGEST = float(np.finfo(np.float32).max)


class Vectors(NamedTuple):
    """words: list of str; values: (words, width) float32, a row a word."""

    words: list[str]
    values: np.ndarray


def find(folder: str | Path) -> Path | None:
    """The file used by default, in `glove` of a data folder; None if it is not there."""
    path = Path(folder) / "glove" / DEFAULT
    return path if path.is_file() else None


def read(path: str | Path, wanted: set[str] | None = None) -> Vectors:
    """Read word vectors.

    Parameters
    ----------
    path : ends in `.npz`, `.txt` or `.txt.gz`; the ending tells the format.
    wanted : words to keep, in the order of the file; None keeps all. Numbers of other words in a text are not parsed.

    Returns
    -------
    Vectors of n words: `values` is (n, width) float32.

    Raises
    ------
    DataError : a file is missing, damaged or empty, its ending is unknown, words and rows differ in number, a line
        is of another length than the first, or a value is not a finite float32 number.
    """
    path = Path(path)
    if path.name.endswith(".npz"):
        return _read_npz(path, wanted)
    if path.name.endswith((".txt", ".txt.gz")):
        return _read_text(path, wanted)
    raise DataError(f"{path}: expected a name which ends in .npz, .txt or .txt.gz")


def _read_npz(path: Path, wanted: set[str] | None) -> Vectors:
    values = _as_values(_vectors_array(path), path)
    words_path = files.find(path.parent, f"{path.stem}_words.txt.gz")
    words = [word for _, word in files.read_lines(words_path)]
    if len(words) != len(values):
        raise DataError(f"{words_path}: expected {len(values)} words, one a row of {path.name}, found {len(words)}")
    if wanted is None:
        return Vectors(words, values)
    kept = [i for i, word in enumerate(words) if word in wanted]
    return Vectors([words[i] for i in kept], values[kept])


def _vectors_array(path: Path) -> np.ndarray:
    arrays = files.read_arrays(path, ("vectors",))
    if not arrays:
        raise DataError(f"{path}: expected an array 'vectors', found none of this name")
    return arrays["vectors"]


def _as_values(given: np.ndarray, path: Path) -> np.ndarray:
    if given.ndim != 2 or given.size == 0 or given.dtype.kind not in "iuf":
        raise DataError(f"{path}: expected 'vectors' to be numbers (words, width), found {given.dtype} {given.shape}")
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, and is reported as what it was
        values = np.ascontiguousarray(given, np.float32)
    wrong = np.argwhere(~np.isfinite(values))
    if wrong.size:
        row, place = wrong[0]
        raise DataError(f"{path}, row {row}: expected finite float32 numbers, found {given[row, place]}")
    return values


def _read_text(path: Path, wanted: set[str] | None) -> Vectors:
    words, rows, width = [], [], None
    for number, line in files.read_lines(path):
        found = line.count(" ")
        if width is None:
            width = found
        if found != width or width == 0:
            expected = f"{width} numbers, as on line 1" if width else "a word and its numbers"
            raise DataError(f"{path}, line {number}: expected {expected}, found {found} after {_start(line)}")
        word, numbers = line.split(" ", 1)
        if wanted is None or word in wanted:
            words.append(word)
            rows.append(_numbers(numbers.split(" "), path, number))
    if width is None:
        raise DataError(f"{path}: expected at least one word, found an empty file")
    return Vectors(words, np.array(rows, np.float32).reshape(len(words), width))


def _start(line: str) -> str:
    return reprlib.repr(line.split(" ", 1)[0])


def _numbers(texts: list[str], path: Path, line: int) -> np.ndarray:
    values = np.array([_float(text) for text in texts])
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))  # so that NaN is wrong too
    if wrong.size:
        found = reprlib.repr(texts[wrong[0]])
        raise DataError(f"{path}, line {line}: expected finite float32 numbers, found {found}")
    return values.astype(np.float32)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
