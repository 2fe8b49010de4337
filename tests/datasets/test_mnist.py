import gzip
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ampnet.datasets import files, mnist
from ampnet.errors import DataError, SettingError
from tests.datasets.conftest import idx_bytes, write_idx

TRAIN_IMAGES, TRAIN_LABELS = mnist.SPLITS["train"]


@pytest.fixture
def folder(small_mnist):
    return small_mnist / "mnist"


def check_fails(call, *parts):
    """`call` raises a DataError of one line, with these parts in it."""
    with pytest.raises(DataError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_small_files(folder):
    dataset = mnist.load(folder, batch=10)
    assert (dataset.train.examples, dataset.valid.examples) == (25, 7)
    assert dataset.test is dataset.valid
    assert dataset.meta == {"width": 784, "classes": 10}
    assert np.diff(dataset.train["pixels"].offsets).tolist() == [10, 10, 5]
    assert dataset.train["label"].values[:, 0].tolist() == [i % 10 for i in range(25)]
    images = mnist.read_idx(folder / TRAIN_IMAGES)
    expected = (images.reshape(25, 784) / 255).astype(np.float32)
    np.testing.assert_allclose(dataset.train["pixels"].values, expected, rtol=1e-7)


def test_pixels_run_from_zero_to_one_exactly(folder):
    write_idx(folder / TRAIN_IMAGES, np.stack([np.zeros((28, 28)), np.full((28, 28), 255)]))
    write_idx(folder / TRAIN_LABELS, [0, 1])
    pixels = mnist.load(folder).train["pixels"].values
    assert set(pixels[0]) == {0.0}
    assert set(pixels[1]) == {1.0}


def test_unpacked_files_will_do(folder):
    packed = mnist.load(folder)
    for path in list(folder.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert np.array_equal(mnist.load(folder).train["pixels"].values, packed.train["pixels"].values)


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=5)))
def test_idx_round_trip(tmp_path_factory, array):
    path = tmp_path_factory.getbasetemp() / "round-trip.idx"
    for name in (path, path.with_suffix(".gz")):
        write_idx(name, array)
        assert np.array_equal(mnist.read_idx(name), array)


@given(st.binary(max_size=40))
def test_any_bytes_give_an_array_or_a_data_error(tmp_path_factory, raw):
    path = tmp_path_factory.getbasetemp() / "noise"
    for name in (path, path.with_suffix(".gz")):
        name.write_bytes(raw)
        try:
            assert mnist.read_idx(name).dtype == np.uint8
        except DataError as error:
            assert name.name in str(error)


@pytest.mark.parametrize("name", mnist.PACKED_SHA256)
def test_missing_file(folder, name):
    (folder / name).unlink()
    check_fails(lambda: mnist.load(folder), name, "no such file")


def test_read_idx_of_nothing(tmp_path):
    check_fails(lambda: mnist.read_idx(tmp_path / "gone.gz"), "gone.gz", "no such file")
    check_fails(lambda: mnist.read_idx(tmp_path), tmp_path.name, "cannot be read")


@pytest.mark.parametrize("kept", [0, 1, 5, 12, 30, -20, -8, -1])
def test_truncated_gzip(folder, kept):
    path = folder / TRAIN_IMAGES
    path.write_bytes(path.read_bytes()[:kept])
    check_fails(lambda: mnist.load(folder), TRAIN_IMAGES, "expected")


@pytest.mark.parametrize("place", [0, 2, 30, 300, -6, -2])
def test_corrupt_gzip(folder, place):
    path = folder / TRAIN_IMAGES
    raw = bytearray(path.read_bytes())
    raw[place] ^= 0xFF
    path.write_bytes(raw)
    check_fails(lambda: mnist.load(folder), TRAIN_IMAGES, "expected a gzip file")


def test_unpacked_bytes_in_a_packed_name(folder):
    (folder / TRAIN_LABELS).write_bytes(idx_bytes([1] * 25))
    check_fails(lambda: mnist.load(folder), TRAIN_LABELS, "expected a gzip file")


@pytest.mark.parametrize("start", [b"", b"\0\0", b"\0\0\x08\0", b"\0\0\x09\x03", b"\x01\0\x08\x03", b"\0\x01\x08\x03"])
def test_wrong_magic_number(tmp_path, start):
    path = tmp_path / "images"
    path.write_bytes(start + (b"\0" * 12 if len(start) == 4 else b""))
    check_fails(lambda: mnist.read_idx(path), "images", "expected the IDX magic number 0 0 8 N, N dimensions")
    check_fails(lambda: mnist.read_idx(path, 3), "images", "expected the IDX magic number 0 0 8 3, found")


def test_images_in_the_place_of_labels(folder):
    shutil.copy(folder / TRAIN_IMAGES, folder / TRAIN_LABELS)
    check_fails(lambda: mnist.load(folder), TRAIN_LABELS, "magic number 0 0 8 1, found 0 0 8 3")


def test_truncated_header(tmp_path):
    (tmp_path / "images").write_bytes(b"\0\0\x08\x03\0\0\0\x01")
    check_fails(lambda: mnist.read_idx(tmp_path / "images"), "header of 16 bytes, found 8")


@pytest.mark.parametrize(("change", "found"), [(lambda raw: raw[:-1], 2), (lambda raw: raw + b"\0", 4)])
def test_wrong_payload(tmp_path, change, found):
    (tmp_path / "labels").write_bytes(change(idx_bytes([1, 2, 3])))
    check_fails(lambda: mnist.read_idx(tmp_path / "labels"), "labels", f"expected 3 bytes of data (3), found {found}")


def test_sizes_beyond_any_memory(tmp_path):
    (tmp_path / "huge").write_bytes(bytes((0, 0, 8, 3)) + b"\xff" * 12)
    check_fails(lambda: mnist.read_idx(tmp_path / "huge"), "found 0")


@pytest.mark.parametrize("shape", [(25, 27, 27), (25, 28, 27), (25, 784, 1)])
def test_wrong_image_size(folder, shape):
    write_idx(folder / TRAIN_IMAGES, np.zeros(shape))
    check_fails(lambda: mnist.load(folder), TRAIN_IMAGES, "expected images of 28x28", f"found {shape[1]}x{shape[2]}")


@pytest.mark.parametrize("value", [10, 255])
def test_label_out_of_range(folder, value):
    labels = np.zeros(25)
    labels[17] = value
    write_idx(folder / TRAIN_LABELS, labels)
    check_fails(lambda: mnist.load(folder), TRAIN_LABELS, "row 17", f"found {value}")


@pytest.mark.parametrize("count", [0, 24, 26])
def test_counts_differ(folder, count):
    write_idx(folder / TRAIN_LABELS, np.zeros(count))
    check_fails(lambda: mnist.load(folder), TRAIN_LABELS, "expected 25 labels", f"found {count}")


def test_no_images(folder):
    write_idx(folder / TRAIN_IMAGES, np.zeros((0, 28, 28)))
    write_idx(folder / TRAIN_LABELS, np.zeros(0))
    check_fails(lambda: mnist.load(folder), TRAIN_IMAGES, "at least one image")


@pytest.mark.parametrize("batch", [0, -1, 2.5])
def test_bad_batch(folder, batch):
    with pytest.raises(SettingError, match="batch"):
        mnist.load(folder, batch)


def test_check_wants_the_published_bytes(folder):
    check_fails(lambda: mnist.check(folder), TRAIN_IMAGES, "sha256")


def test_the_real_thing(real_mnist):
    dataset = mnist.load(real_mnist / "mnist")
    labels = [split["label"].values[:, 0].astype(int) for split in (dataset.train, dataset.valid)]
    assert np.bincount(labels[0]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(labels[1]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert labels[0][:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert labels[1][:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    pixels = dataset.train["pixels"].values
    assert pixels.shape == (60_000, 784)
    assert pixels.mean(dtype=float) == pytest.approx(0.13066, abs=1e-5)
    assert pixels.std(dtype=float) == pytest.approx(0.30811, abs=1e-5)
    assert len(dataset.train) == 600


def test_check_of_the_real_thing_however_packed(real_mnist, tmp_path):
    for name in mnist.PACKED_SHA256:
        raw = files.read(files.find(real_mnist / "mnist", name))
        (tmp_path / name).write_bytes(gzip.compress(raw, compresslevel=1))
    assert [line.split()[1] for line in mnist.check(tmp_path)] == ["60,000", "10,000"]
