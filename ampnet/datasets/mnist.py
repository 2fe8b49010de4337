"""MNIST: 28 x 28 grey images of the digits 0..9, from IDX files.

IDX is 4 magic bytes (0, 0, 8 for uint8, number of dimensions), a big-endian uint32 size a dimension, then the uint8
data. The files are read packed (`.gz`) or unpacked, whichever lies in the folder; packed goes first.

Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits"; 60,000 training, 10,000 test images.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ampnet.datasets import files
from ampnet.datasets.columns import Dataset, Instances, batched
from ampnet.errors import DataError

LICENCE = "CC BY-SA 3.0"
SIDE = 28
WIDTH = SIDE * SIDE
CLASSES = 10
SPLITS = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
ADDRESSES = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
PACKED_SHA256 = {  # as downloaded
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
CONTENT_SHA256 = {  # unpacked: the same whoever packed it, and when
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
DOWNLOADS = tuple(files.Download(name, ADDRESSES, PACKED_SHA256[name], content) for name, content in CONTENT_SHA256.items())


def load(folder: str | Path, batch: int = 100) -> Dataset:
    """Read MNIST from the folder of its four files.

    MNIST has no validation split of its own: `valid` is the test images, and `test` is the same object.

    Returns
    -------
    Dataset with columns `pixels` (width 784, in 0..1) and `label` (width 1, 0..9), `batch` independent rows an
    instance; meta: width 784, classes 10.

    Raises
    ------
    DataError : a file is missing, damaged or not MNIST's.
    SettingError : batch is not a positive integer.
    """
    train, test = (_load_split(Path(folder), split, batch) for split in SPLITS)
    return Dataset("mnist", train, test, test, meta={"width": WIDTH, "classes": CLASSES})


def check(folder: str | Path) -> list[str]:
    """Parse all four files, and compare their unpacked bytes with the published ones; returns lines to print.

    Raises
    ------
    DataError : a file is missing, damaged, or differs from the original.
    """
    lines = []
    for split, names in SPLITS.items():
        images, _ = read_split(folder, split)
        for name in names:
            path = files.find(folder, name)
            files.verify(files.read(path), path, CONTENT_SHA256[name])
        lines.append(f"mnist: {len(images):,} {split} images and labels, checksums as published")
    return lines


def read_split(folder: str | Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(n, 28, 28) uint8 images and (n,) uint8 labels of "train" or "test"; a `DataError` if they do not fit."""
    images_path, labels_path = (files.find(folder, name) for name in SPLITS[split])
    images = read_idx(images_path, dimensions=3)
    labels = read_idx(labels_path, dimensions=1)
    if images.shape[1:] != (SIDE, SIDE):
        rows, columns = images.shape[1:]
        raise DataError(f"{images_path}: expected images of {SIDE}x{SIDE}, found {rows}x{columns}")
    if len(images) == 0:
        raise DataError(f"{images_path}: expected at least one image, found none")
    if len(images) != len(labels):
        raise DataError(
            f"{labels_path}: expected {len(images)} labels, one an image of {images_path.name}, found {len(labels)}"
        )
    wrong = np.flatnonzero(labels >= CLASSES)
    if wrong.size:
        raise DataError(f"{labels_path}, row {wrong[0]}: expected a label in 0..9, found {labels[wrong[0]]}")
    return images, labels


def read_idx(path: str | Path, dimensions: int | None = None) -> np.ndarray:
    """Read an IDX file of uint8, packed if its name ends in `.gz`.

    Parameters
    ----------
    dimensions : how many the file must have; None takes any from 1 up.

    Returns
    -------
    uint8 array of the shape in the header, read-only.

    Raises
    ------
    DataError : one line with the file and what was expected of it.
    """
    raw = files.read(path)
    found = _dimensions(raw, path, dimensions)
    start = 4 + 4 * found
    if len(raw) < start:
        raise DataError(f"{path}: expected an IDX header of {start} bytes, found {len(raw)}")
    shape = tuple(int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4))
    if len(raw) - start != math.prod(shape):
        sizes = "x".join(map(str, shape))
        raise DataError(f"{path}: expected {math.prod(shape)} bytes of data ({sizes}), found {len(raw) - start}")
    try:
        return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)
    except ValueError:  # too many dimensions, or sizes too large beside one that is 0
        raise DataError(f"{path}: expected the shape of an array, found {found} sizes, up to {max(shape)}") from None


def _dimensions(raw: bytes, path, wanted: int | None) -> int:
    """Number of dimensions in the magic number, which is checked."""
    found = raw[3] if len(raw) >= 4 else 0
    if raw[:3] == b"\x00\x00\x08" and found > 0 and wanted in (None, found):
        return found
    expected = f"0 0 8 {wanted or 'N, N dimensions'}"
    start = " ".join(map(str, raw[:4])) or "an empty file"
    raise DataError(f"{path}: expected the IDX magic number {expected}, found {start}")


def _load_split(folder: Path, split: str, batch: int) -> Instances:
    images, labels = read_split(folder, split)
    pixels = np.divide(images.reshape(len(images), WIDTH), np.float32(255), dtype=np.float32)
    return batched({"pixels": pixels, "label": labels}, batch)
