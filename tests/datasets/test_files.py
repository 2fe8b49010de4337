import gzip
import hashlib

import pytest

from ampnet.datasets import files
from ampnet.errors import DataError

SHA256 = hashlib.sha256(b"content").hexdigest()


@pytest.mark.parametrize(("name", "raw"), [("a.txt", b"content"), ("a.txt.gz", gzip.compress(b"content"))])
def test_packed_or_not(tmp_path, name, raw):
    (tmp_path / name).write_bytes(raw)
    assert files.find(tmp_path, "a.txt.gz") == tmp_path / name
    assert files.read(tmp_path / name) == files.read(str(tmp_path / name)) == b"content"
    assert list(files.read_lines(tmp_path / name)) == [(1, "content")]
    assert files.find_intact(tmp_path, "a.txt.gz", SHA256) == tmp_path / name
    assert files.find_intact(tmp_path, "a.txt.gz", SHA256[::-1]) is None


def test_packed_goes_first(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"content")
    (tmp_path / "a.txt.gz").write_bytes(b"damaged")
    assert files.find(tmp_path, "a.txt.gz") == tmp_path / "a.txt.gz"
    assert files.find_intact(tmp_path, "a.txt.gz", SHA256) is None


@pytest.mark.parametrize("call", [files.read, lambda path: list(files.read_lines(path))])
def test_what_cannot_be_read(tmp_path, call):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"content")[:-1])
    for name, said in (("gone", "no such file"), ("folder", "cannot be read: Is a d"), ("a.gz", "expected a gzip file, found")):
        with pytest.raises(DataError, match=f"{name}: {said}"):
            call(tmp_path / name)


def test_nothing_to_find(tmp_path):
    (tmp_path / "a.txt").mkdir()
    assert files.first(tmp_path, ("a.txt", "b.txt")) is None
    with pytest.raises(DataError, match="a.txt.gz: no such file"):
        files.find(tmp_path, "a.txt.gz")
    assert files.find_intact(tmp_path, "a.txt.gz", SHA256) is None


def test_verify():
    files.verify(b"content", "a.txt", SHA256)
    with pytest.raises(DataError, match=f"^a.txt: expected unpacked bytes of sha256 {SHA256}, found d9298a10"):
        files.verify(b"other", "a.txt", SHA256)
