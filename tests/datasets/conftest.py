"""Small MNIST files written on the spot, and the real ones when $AMPNET_DATA names a folder that has them."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from ampnet.datasets import mnist

REAL = os.environ.get("AMPNET_DATA")


def idx_bytes(array):
    array = np.asarray(array, np.uint8)
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()


def write_idx(path, array):
    raw = idx_bytes(array)
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)


@pytest.fixture
def small_mnist(tmp_path):
    """A data folder whose `mnist` has 25 training and 7 test images."""
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for count, (images, labels) in zip((25, 7), mnist.SPLITS.values(), strict=True):
        write_idx(folder / images, rng.integers(0, 256, (count, 28, 28)))
        write_idx(folder / labels, np.arange(count) % 10)
    return folder.parent


@pytest.fixture
def real_mnist():
    """The data folder with all of MNIST; skips where there is none."""
    if not REAL or not (Path(REAL) / "mnist").is_dir():
        pytest.skip("AMPNET_DATA names no folder with mnist/")
    return Path(REAL)
