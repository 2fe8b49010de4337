import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ampnet.datasets import glove
from ampnet.errors import DataError
from tests.datasets.conftest import REAL

TEXT = "the 0.5 -1 2e-3\n8\u00a01 1 2 3\n, 4 5 6\n"
WORDS = ["the", "8\u00a01", ","]
VALUES = np.array([[0.5, -1, 2e-3], [1, 2, 3], [4, 5, 6]], np.float32)


def check_fails(call, *parts):
    """`call` raises a DataError of one line, with these parts in it."""
    with pytest.raises(DataError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for part in parts:
        assert part in text


def write_text(path, text):
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def write_npz(path, words=WORDS, **arrays):
    np.savez(path, **(arrays or {"vectors": VALUES}))
    write_text(path.with_name(f"{path.stem}_words.txt.gz"), "".join(f"{word}\n" for word in words))
    return path


def check_vectors(found, rows=(0, 1, 2)):
    rows = list(rows)
    assert found.words == [WORDS[row] for row in rows]
    assert found.values.dtype == np.float32
    assert found.values.shape == (len(rows), 3)
    np.testing.assert_array_equal(found.values, VALUES[rows])


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "glove.6B.txt"])
@pytest.mark.parametrize("text", [TEXT, TEXT[:-1], TEXT.replace("\n", "\r\n")])
def test_text(tmp_path, name, text):
    path = write_text(tmp_path / name, text)
    check_vectors(glove.read(path))
    check_vectors(glove.read(str(path)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_npz(tmp_path, dtype):
    check_vectors(glove.read(write_npz(tmp_path / "glove.6B.3d.npz", vectors=VALUES.astype(dtype))))


def test_npz_with_unpacked_words(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    (tmp_path / "a_words.txt.gz").unlink()
    write_text(tmp_path / "a_words.txt", "\n".join(WORDS))
    check_vectors(glove.read(path))


@pytest.mark.parametrize(("wanted", "rows"), [({",", "the", "absent"}, (0, 2)), ({"absent"}, ()), (set(WORDS), (0, 1, 2))])
def test_wanted(tmp_path, wanted, rows):
    check_vectors(glove.read(write_text(tmp_path / "a.txt", TEXT), wanted), rows)
    check_vectors(glove.read(write_npz(tmp_path / "a.npz"), wanted), rows)


def test_numbers_of_unwanted_words_are_not_parsed(tmp_path):
    path = write_text(tmp_path / "a.txt", TEXT + "odd x y z\n")
    check_vectors(glove.read(path, set(WORDS)))
    check_fails(lambda: glove.read(path, {"odd"}), "a.txt, line 4", "found 'x'")


def test_what_unicode_counts_as_a_line_break_is_part_of_a_word(tmp_path):
    path = write_text(tmp_path / "a.txt", "a\u2028b 1\nc\x85 2\n")
    assert glove.read(path).words == ["a\u2028b", "c\x85"]


@pytest.mark.parametrize("line", ["a 1", "a 1 2 3", "a b 1 2", "a  1 2", "a", "", "a 1 2 "])
def test_line_of_a_different_length(tmp_path, line):
    path = write_text(tmp_path / "a.txt", f"the 1 2\n{line}\nb 1 2\n")
    found = f"found {line.count(' ')} after"
    check_fails(lambda: glove.read(path), "a.txt, line 2: expected 2 numbers, as on line 1", found)
    check_fails(lambda: glove.read(path, {"the"}), "a.txt, line 2: expected 2 numbers, as on line 1", found)


@pytest.mark.parametrize("line", ["", "word"])
def test_first_line_without_numbers(tmp_path, line):
    path = write_text(tmp_path / "a.txt", f"{line}\nb 1\n")
    check_fails(lambda: glove.read(path), f"a.txt, line 1: expected a word and its numbers, found 0 after {line!r}")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e39", "-1e39", "1e999", "x", "1,5", ""])
def test_text_value_is_no_finite_number(tmp_path, value):
    path = write_text(tmp_path / "a.txt", f"the 1 2\nof 3 {value}\n")
    check_fails(lambda: glove.read(path), "a.txt, line 2: expected finite float32 numbers", f"found {value!r}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e39])
def test_npz_value_is_no_finite_number(tmp_path, value):
    path = write_npz(tmp_path / "a.npz", vectors=np.array([[1, 2], [3, value], [4, 5]]))
    check_fails(lambda: glove.read(path), "a.npz, row 1: expected finite float32 numbers", f"found {value}")


@pytest.mark.parametrize("words", [WORDS[:2], [*WORDS, "more"], []])
def test_words_and_rows_differ(tmp_path, words):
    path = write_npz(tmp_path / "a.npz", words)
    check_fails(lambda: glove.read(path), "a_words.txt.gz: expected 3 words, one a row of a.npz", f"found {len(words)}")


@pytest.mark.parametrize(
    "array", [np.zeros(3), np.zeros((3, 2, 2)), np.zeros((0, 5)), np.zeros((3, 0)), np.array([["1"]]), np.zeros((3, 1), bool)]
)
def test_npz_of_something_else(tmp_path, array):
    path = write_npz(tmp_path / "a.npz", vectors=array)
    check_fails(lambda: glove.read(path), "a.npz: expected 'vectors' to be numbers (words, width)", str(array.shape))


def test_npz_without_vectors(tmp_path):
    path = write_npz(tmp_path / "a.npz", other=VALUES)
    check_fails(lambda: glove.read(path), "a.npz: expected an array 'vectors'")


def test_npz_of_objects_is_not_unpickled(tmp_path):
    path = write_npz(tmp_path / "a.npz", vectors=np.array([[{}]]))
    check_fails(lambda: glove.read(path), "a.npz: expected a .npz file of numbers")


@pytest.mark.parametrize("kept", [0, 1, 50, 150, -1])
def test_damaged_npz(tmp_path, kept):
    path = write_npz(tmp_path / "a.npz")
    path.write_bytes(path.read_bytes()[:kept])
    check_fails(lambda: glove.read(path), "a.npz: expected a .npz file of numbers")


def test_npz_with_a_changed_byte(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    raw = bytearray(path.read_bytes())
    raw[raw.index(VALUES.tobytes())] ^= 1
    path.write_bytes(raw)
    check_fails(lambda: glove.read(path), "a.npz: expected a .npz file of numbers", "CRC")


def test_npz_whose_member_is_no_array(tmp_path):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("vectors.npy", b"not an array")
    (tmp_path / "a.npz").write_bytes(raw.getvalue())
    check_fails(lambda: glove.read(tmp_path / "a.npz"), "a.npz: expected a .npz file of numbers")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_empty_file(tmp_path, name):
    path = write_text(tmp_path / name, "")
    check_fails(lambda: glove.read(path), f"{name}: expected at least one word, found an empty file")


def test_not_gzip(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(TEXT.encode())
    check_fails(lambda: glove.read(tmp_path / "a.txt.gz"), "a.txt.gz: expected a gzip file")


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_truncated_gzip(tmp_path, kept):
    path = write_text(tmp_path / "a.txt.gz", TEXT)
    path.write_bytes(path.read_bytes()[:kept])
    check_fails(lambda: glove.read(path), "a.txt.gz: expected a gzip file")


def test_not_utf8(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"the 1\n\xff 2\n")
    check_fails(lambda: glove.read(tmp_path / "a.txt"), "a.txt, line 2: expected UTF-8, found byte 0xff")


@pytest.mark.parametrize("name", ["a.bin", "a", "a.gz", "a.npz.gz", "txt"])
def test_unknown_ending(tmp_path, name):
    path = write_text(tmp_path / name, TEXT)
    check_fails(lambda: glove.read(path), f"{name}: expected a name which ends in .npz, .txt or .txt.gz")


def test_missing_files(tmp_path):
    check_fails(lambda: glove.read(tmp_path / "a.txt"), "a.txt: no such file")
    check_fails(lambda: glove.read(tmp_path / "a.npz"), "a.npz: no such file")
    write_npz(tmp_path / "a.npz")
    (tmp_path / "a_words.txt.gz").unlink()
    check_fails(lambda: glove.read(tmp_path / "a.npz"), "a_words.txt.gz: no such file")


def test_folder_in_the_place_of_a_file(tmp_path):
    (tmp_path / "a.txt").mkdir()
    check_fails(lambda: glove.read(tmp_path / "a.txt"), "a.txt: cannot be read")


def test_find(tmp_path):
    assert glove.find(tmp_path) is None
    (tmp_path / "glove").mkdir()
    path = write_npz(tmp_path / "glove" / "glove.6B.50d.sst.npz")
    assert glove.find(tmp_path) == glove.find(str(tmp_path)) == path


def test_the_real_thing():
    path = REAL and glove.find(Path(REAL))
    if not path:
        pytest.skip("AMPNET_DATA names no folder with glove/")
    words, values = glove.read(path)
    assert len(words) == len(set(words)) == 17_773
    assert values.shape == (17_773, 50)
    assert values[words.index("the"), :4].tolist() == pytest.approx([0.418, 0.24968, -0.41242, 0.1217])
    some = glove.read(path, {"the", "film"})
    assert sorted(some.words) == ["film", "the"]
    np.testing.assert_array_equal(some.values[some.words.index("film")], values[words.index("film")])
