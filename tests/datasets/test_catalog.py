import functools
import hashlib
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pooch
import pytest

from ampnet import datasets
from ampnet.datasets import catalog, mnist
from ampnet.errors import DataError, SettingError

TRAIN_IMAGES = mnist.SPLITS["train"][0]


@pytest.fixture(autouse=True)
def nothing_of_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("AMPNET_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


def test_an_explicit_folder(small_mnist):
    assert catalog.locate("mnist", small_mnist) == small_mnist / "mnist"
    assert catalog.locate("mnist", str(small_mnist)) == small_mnist / "mnist"
    assert datasets.load("mnist", data=small_mnist).train.examples == 25


def test_the_environment_then_the_cache(small_mnist, monkeypatch, tmp_path):
    monkeypatch.setenv("AMPNET_DATA", str(small_mnist))
    assert catalog.locate("mnist") == small_mnist / "mnist"
    cache = tmp_path / "cache" / "ampnet"
    cache.parent.mkdir()
    small_mnist.rename(cache)
    assert catalog.locate("mnist") == cache / "mnist"
    monkeypatch.setenv("AMPNET_DATA", "")
    assert catalog.locate("mnist") == cache / "mnist"


def test_an_explicit_folder_without_the_files_is_an_error(small_mnist, monkeypatch, tmp_path):
    monkeypatch.setenv("AMPNET_DATA", str(small_mnist))
    with pytest.raises(DataError, match=f"empty/mnist/{TRAIN_IMAGES}: no such file.*`ampnet data fetch mnist`"):
        catalog.locate("mnist", tmp_path / "empty")
    (small_mnist / "mnist" / mnist.SPLITS["test"][1]).unlink()
    with pytest.raises(DataError, match=mnist.SPLITS["test"][1]):
        datasets.load("mnist", data=small_mnist)


def test_nothing_found_says_where_it_looked(monkeypatch, tmp_path):
    monkeypatch.setenv("AMPNET_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError) as caught:
        catalog.locate("mnist")
    for part in ("$AMPNET_DATA", "elsewhere", "cache", "`ampnet data fetch mnist`"):
        assert part in str(caught.value)


@pytest.mark.parametrize("call", [datasets.load, catalog.locate, catalog.check, catalog.fetch])
def test_unknown_tasks_list_the_known(call):
    with pytest.raises(SettingError, match="'cifar'; known are mnist, list-reduction"):
        call("cifar")


def test_generated_tasks_need_no_files():
    dataset = datasets.load("list-reduction", seed=2)
    assert dataset.train.examples == 100_000
    assert catalog.check("list-reduction")
    assert catalog.fetch("list-reduction") == ["list-reduction: generated, nothing to download"]
    with pytest.raises(SettingError, match="generated"):
        catalog.locate("list-reduction")


def test_describe(small_mnist, tmp_path):
    generated = ("list-reduction", "generated", "built in", "none needed")
    assert catalog.describe(small_mnist) == [
        ("mnist", "4 files", str(small_mnist / "mnist"), "CC BY-SA 3.0"),
        generated,
    ]
    assert catalog.describe(tmp_path) == [("mnist", "4 files", "missing", "CC BY-SA 3.0"), generated]


def test_check_of_damaged_files(small_mnist):
    with pytest.raises(DataError, match="sha256"):
        catalog.check("mnist", small_mnist)


def test_check_of_the_real_thing(real_mnist):
    assert catalog.check("mnist", real_mnist)[-1].startswith("mnist: whole, in ")


@pytest.fixture
def server(small_mnist, monkeypatch):
    """The small files behind an address; they count as the published ones."""
    handler = functools.partial(QuietHandler, directory=small_mnist / "mnist")
    sums = {
        name: hashlib.sha256((small_mnist / "mnist" / name).read_bytes()).hexdigest() for name in mnist.CONTENT_SHA256
    }
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{running.server_port}/"
        entry = replace(catalog.TASKS["mnist"], files=sums, addresses=(address + "gone/", address))
        monkeypatch.setitem(catalog.TASKS, "mnist", entry)
        yield address
        running.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def test_fetch_goes_on_to_the_mirror(server, tmp_path):
    lines = catalog.fetch("mnist", tmp_path / "new")
    assert len(lines) == 4
    assert all(line.endswith(f"downloaded from {server}") for line in lines)
    assert datasets.load("mnist", data=tmp_path / "new").train.examples == 25


@pytest.mark.parametrize("variable", ["", "chosen"])
def test_fetch_without_a_folder_goes_where_load_looks_first(server, tmp_path, monkeypatch, variable):
    if variable:
        monkeypatch.setenv("AMPNET_DATA", str(tmp_path / variable))
    catalog.fetch("mnist")
    expected = tmp_path / variable if variable else tmp_path / "cache" / "ampnet"
    assert catalog.locate("mnist") == expected / "mnist"


def test_a_wrong_checksum_is_no_download(server, tmp_path, monkeypatch):
    entry = catalog.TASKS["mnist"]
    monkeypatch.setitem(catalog.TASKS, "mnist", replace(entry, files=mnist.PACKED_SHA256))
    with pytest.raises(DataError, match=f"{TRAIN_IMAGES}: no address gave this file: .*gone.*404.*hash") as caught:
        catalog.fetch("mnist", tmp_path / "new")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new" / "mnist" / TRAIN_IMAGES).exists()


def test_fetch_replaces_what_is_damaged(server, tmp_path):
    damaged = tmp_path / "new" / "mnist" / TRAIN_IMAGES
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"half a file")
    catalog.fetch("mnist", tmp_path / "new")
    assert mnist.read_idx(damaged).shape == (25, 28, 28)


def test_fetch_leaves_whole_files_alone_however_packed(real_mnist, monkeypatch):
    monkeypatch.setattr(pooch, "retrieve", lambda *args, **kwargs: pytest.fail("downloaded"))
    assert all(line.endswith("already there") for line in catalog.fetch("mnist", real_mnist))


def test_importing_is_light():
    code = "import sys, ampnet.datasets; print(sorted({'pooch', 'requests', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
