import functools
import gzip
import hashlib
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pooch
import pytest

from ampnet import datasets
from ampnet.datasets import babi, catalog, glove, mnist, qm9, qm9_files, sentiment
from ampnet.errors import DataError, SettingError
from tests.datasets.test_babi import files_of, pack
from tests.datasets.test_glove import write_npz as write_vectors
from tests.datasets.test_qm9 import write_npz as write_molecules

TRAIN_IMAGES = mnist.SPLITS["train"][0]
TREES = {name: f"(3 (2 the) (4 {name}))\n".encode() for name in sentiment.CONTENT_SHA256}
ARCHIVE = sentiment.DOWNLOADS[0].name


@pytest.fixture(autouse=True)
def nothing_of_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("AMPNET_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


@pytest.fixture
def data(tmp_path):
    """A data folder with small files of "sentiment", "babi15" and "qm9"."""
    folder = tmp_path / "data"
    for task in ("sst", "babi", "glove"):
        (folder / task).mkdir(parents=True)
    for name, text in TREES.items():
        (folder / "sst" / f"{name}.txt").write_bytes(text)
    graphs = "1 1 2\n2 2 3\n? 1 1 3\n\n" * 260
    folds = [files_of(fold, part, graphs) for fold in range(1, 11) for part in ("train", "test")]
    pack(folder / "babi", {name: text for fold in folds for name, text in fold.items()})
    write_molecules(folder / "qm9")
    return folder


def sha256(raw):
    return hashlib.sha256(raw).hexdigest()


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


@pytest.mark.parametrize("call", [datasets.load, catalog.locate, catalog.find_optional, catalog.check, catalog.fetch])
def test_unknown_tasks_list_the_known(call):
    with pytest.raises(SettingError, match="'cifar'; known are mnist, list-reduction, sentiment, babi15, qm9$"):
        call("cifar")


def test_generated_tasks_need_no_files():
    dataset = datasets.load("list-reduction", seed=2)
    assert dataset.train.examples == 100_000
    assert catalog.check("list-reduction")
    assert catalog.fetch("list-reduction") == ["list-reduction: generated, nothing to download"]
    for call in (catalog.locate, catalog.find_optional):
        with pytest.raises(SettingError, match="generated"):
            call("list-reduction")


def test_describe(small_mnist, data, tmp_path):
    found = {row.task: row for row in catalog.describe(data)}
    assert list(found) == ["mnist", "list-reduction", "sentiment", "babi15", "qm9"]
    assert found["mnist"] == ("mnist", "4 files", str(data / "mnist"), "CC BY-SA 3.0")
    assert found["list-reduction"] == ("list-reduction", "generated", "built in", "none needed")
    assert found["sentiment"] == ("sentiment", "3 files", str(data / "sst"), sentiment.LICENCE)
    assert found["babi15"] == ("babi15", "optional", str(data / "babi"), "CC BY 3.0")
    assert found["qm9"] == ("qm9", "npz, csv or xyz", str(data / "qm9"), "CC0")
    assert [row.found for row in catalog.describe(tmp_path)] == ["missing", "built in", "missing", "missing", "missing"]
    assert [row.found for row in catalog.describe()] == ["missing", "built in", "missing", "generated", "missing"]


@pytest.mark.parametrize("packed", [False, True])
def test_sentiment_in_its_folder(data, packed):
    path = data / "sst" / "dev.txt"
    if packed:
        path.with_suffix(".txt.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert catalog.locate("sentiment", data) == data / "sst"
    assert datasets.load("sentiment", data).meta["vectors"] is None


def test_sentiment_with_the_vectors_beside_it(data):
    vectors = write_vectors(data / "glove" / glove.DEFAULT)
    tables = [datasets.load("sentiment", data, seed).meta["vectors"] for seed in (1, 1, 2)]
    assert tables[0][1].tolist() == glove.read(vectors).values[0].tolist()  # "the"
    assert np.array_equal(tables[0], tables[1])
    assert not np.array_equal(tables[0], tables[2])


def test_check_of_sentiment(data, monkeypatch):
    with pytest.raises(DataError, match=r"train.txt: expected unpacked bytes of sha256 e2f3f41b"):
        catalog.check("sentiment", data)
    monkeypatch.setattr(sentiment, "CONTENT_SHA256", {name: sha256(text) for name, text in TREES.items()})
    assert len(catalog.check("sentiment", data)) == 4
    write_vectors(data / "glove" / glove.DEFAULT)
    assert catalog.check("sentiment", data)[-2:] == [
        f"sentiment: vectors of 3 words in {glove.DEFAULT}",
        f"sentiment: whole, in {data / 'sst'}",
    ]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("sentiment", "sst/train.txt.gz: no such file.*`ampnet data fetch sentiment`"),
        ("qm9", "qm9: expected a file .*`ampnet data fetch qm9`"),
    ],
)
def test_missing_files_of_other_folders(tmp_path, task, said):
    for call in (catalog.locate, catalog.find_optional, datasets.load, catalog.check):
        with pytest.raises(DataError, match=said):
            call(task, tmp_path)


def test_babi_from_files(data, monkeypatch):
    assert datasets.load("babi15", data).meta["source"] == "fold 1"
    assert catalog.locate("babi15", data) == catalog.find_optional("babi15", data) == data / "babi"
    lines = catalog.check("babi15", data)
    assert len(lines) == 11
    assert lines[-1] == f"babi15: whole, in {data / 'babi'}"
    monkeypatch.setenv("AMPNET_DATA", str(data))
    assert catalog.find_optional("babi15") == data / "babi"


def test_babi_without_files(tmp_path, monkeypatch):
    monkeypatch.setenv("AMPNET_DATA", str(tmp_path))
    assert catalog.find_optional("babi15") is None
    loaded = [datasets.load("babi15", seed=seed) for seed in (1, 1, 2)]
    answers = [dataset.train["answer"].values for dataset in loaded]
    assert loaded[0].meta["source"] == "generated"
    assert np.array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])
    assert catalog.check("babi15")[-1] == "babi15: no files, so it is generated"
    with pytest.raises(DataError, match=r"\$AMPNET_DATA .*the user's cache"):
        catalog.locate("babi15")


def test_babi_in_an_explicit_folder_must_be_there(data, tmp_path, monkeypatch):
    monkeypatch.setenv("AMPNET_DATA", str(data))
    for call in (catalog.locate, catalog.find_optional, datasets.load, catalog.check):
        with pytest.raises(DataError, match=f"empty/babi/{babi.ARCHIVE}: no such file.*leave the folder out"):
            call("babi15", tmp_path / "empty")


def test_babi_has_nothing_to_download(tmp_path):
    assert catalog.fetch("babi15", tmp_path) == [
        "babi15: nothing to download, graphs are generated where there are no files"
    ]


def test_qm9_of_any_source(data, monkeypatch):
    assert datasets.load("qm9", data).train.examples == 3
    monkeypatch.setattr(qm9, "MOLECULES", 5)
    monkeypatch.setattr(qm9, "KNOWN_MU", {})
    assert catalog.check("qm9", data)[-1] == f"qm9: whole, in {data / 'qm9'}"
    for name in (*qm9_files.TABLES, qm9_files.ARCHIVE):
        (data / "qm9" / qm9_files.GRAPHS).unlink(missing_ok=True)
        with pytest.raises(DataError):
            catalog.locate("qm9", data)
        (data / "qm9" / name).touch()
        assert catalog.locate("qm9", data) == data / "qm9"
        (data / "qm9" / name).unlink()


def test_check_of_damaged_files(small_mnist):
    with pytest.raises(DataError, match="sha256"):
        catalog.check("mnist", small_mnist)


def test_check_of_the_real_thing(real_mnist):
    assert catalog.check("mnist", real_mnist)[-1].startswith("mnist: whole, in ")


@pytest.fixture
def served(tmp_path, monkeypatch):
    """An empty folder, and the address where its files are."""
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=folder)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


@pytest.fixture
def change_downloads(monkeypatch):
    """Changes fields of all downloads of a task."""

    def change(task, **fields):
        entry = catalog.TASKS[task]
        changed = tuple(replace(one, **{name: value(one) for name, value in fields.items()}) for one in entry.downloads)
        monkeypatch.setitem(catalog.TASKS, task, replace(entry, downloads=changed))

    return change


@pytest.fixture
def server(served, small_mnist, change_downloads):
    """The small files behind an address; they count as the published ones."""
    folder, address = served
    for path in (small_mnist / "mnist").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    change_downloads(
        "mnist",
        addresses=lambda one: (address + "gone/", address),
        sha256=lambda one: sha256((folder / one.name).read_bytes()),
        content=lambda one: sha256(gzip.decompress((folder / one.name).read_bytes())),
    )
    return address


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


def test_a_wrong_checksum_is_no_download(server, tmp_path, change_downloads):
    change_downloads("mnist", sha256=lambda one: mnist.PACKED_SHA256[one.name])
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


def test_fetch_leaves_whole_files_alone_however_packed(server, small_mnist, monkeypatch):
    monkeypatch.setattr(pooch, "retrieve", lambda *args, **kwargs: pytest.fail("downloaded"))
    packed = small_mnist / "mnist" / TRAIN_IMAGES
    content = gzip.decompress(packed.read_bytes())
    packed.write_bytes(gzip.compress(content, 1))
    assert catalog.fetch("mnist", small_mnist)[0] == f"{packed}: already there"
    packed.with_suffix("").write_bytes(content)
    packed.unlink()
    assert catalog.fetch("mnist", small_mnist)[0] == f"{packed.with_suffix('')}: already there"


def test_fetch_leaves_the_real_files_alone(real_mnist, monkeypatch):
    monkeypatch.setattr(pooch, "retrieve", lambda *args, **kwargs: pytest.fail("downloaded"))
    for task, folder in (("mnist", "mnist"), ("sentiment", "sst")):
        if (real_mnist / folder).is_dir():
            assert all(line.endswith("already there") for line in catalog.fetch(task, real_mnist))


@pytest.fixture
def trees_server(served, change_downloads):
    """Publishes an archive of the members given, of which "train" may be changed; they count as the published ones."""
    folder, address = served

    def publish(members=tuple(TREES), train=TREES["train"]):
        with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
            for name in members:
                archive.writestr(f"trees/{name}.txt", {**TREES, "train": train}[name])
            archive.writestr("trees/more.txt", "not wanted")
        change_downloads(
            "sentiment",
            addresses=lambda one: (address,),
            sha256=lambda one: sha256((folder / ARCHIVE).read_bytes()),
            members=lambda one: {f"trees/{name}.txt": sha256(text) for name, text in TREES.items()},
        )
        return address

    return publish


def test_fetch_unpacks_an_archive(trees_server, tmp_path):
    address = trees_server()
    folder = tmp_path / "new" / "sst"
    assert catalog.fetch("sentiment", tmp_path / "new") == [
        f"{folder / name}.txt: out of {ARCHIVE}, downloaded from {address}" for name in TREES
    ]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {f"{name}.txt": TREES[name] for name in TREES}
    assert len(datasets.load("sentiment", tmp_path / "new").test) == 1
    assert catalog.fetch("sentiment", tmp_path / "new") == [f"{folder / name}.txt: already there" for name in TREES]


def test_fetch_replaces_members_that_are_missing_or_damaged(trees_server, tmp_path):
    trees_server()
    folder = tmp_path / "new" / "sst"
    folder.mkdir(parents=True)
    (folder / "train.txt.gz").write_bytes(gzip.compress(TREES["train"]))
    (folder / "test.txt.gz").write_bytes(b"half a file")
    lines = catalog.fetch("sentiment", tmp_path / "new")
    assert lines[0] == f"{folder / 'train.txt.gz'}: already there"
    assert [line.split(":")[0] for line in lines[1:]] == [str(folder / "dev.txt"), str(folder / "test.txt")]
    assert sorted(path.name for path in folder.iterdir()) == ["dev.txt", "test.txt", "train.txt.gz"]


def test_a_wrong_checksum_of_an_archive(trees_server, tmp_path, change_downloads):
    trees_server()
    change_downloads("sentiment", sha256=lambda one: sentiment.DOWNLOADS[0].sha256)
    with pytest.raises(DataError, match=f"sst/{ARCHIVE}: no address gave this file: .*hash"):
        catalog.fetch("sentiment", tmp_path / "new")
    assert not list((tmp_path / "new" / "sst").iterdir())


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ({"members": ("train", "test")}, f"sst/{ARCHIVE}: expected a member trees/dev.txt, found none"),
        ({"train": b"(2 other)"}, f"{ARCHIVE}: trees/train.txt: expected unpacked bytes of sha256 {sha256(TREES['train'])}"),
    ],
)
def test_an_archive_of_something_else(trees_server, tmp_path, published, said):
    trees_server(**published)
    with pytest.raises(DataError, match=said):
        catalog.fetch("sentiment", tmp_path / "new")
    assert not list((tmp_path / "new" / "sst").glob("*.txt*"))


def test_an_archive_that_cannot_be_unpacked_there(trees_server, tmp_path):
    trees_server()
    (tmp_path / "new" / "sst" / "train.txt").mkdir(parents=True)
    with pytest.raises(DataError, match="new/sst: cannot be written: Is a directory"):
        catalog.fetch("sentiment", tmp_path / "new")


def test_fetch_keeps_a_file_of_another_name_in_its_address(served, tmp_path, change_downloads):
    folder, address = served
    addresses = {one.name: f"{address}{number}" for number, one in enumerate(qm9_files.DOWNLOADS)}
    for number in range(2):
        (folder / str(number)).write_bytes(b"content")
    change_downloads("qm9", addresses=lambda one: (addresses[one.name],), sha256=lambda one: sha256(b"content"))
    new = tmp_path / "new" / "qm9"
    names = [qm9_files.ARCHIVE, qm9_files.UNCHARACTERIZED]
    expected = [f"{new / name}: downloaded from {addresses[name]}" for name in names]
    assert catalog.fetch("qm9", tmp_path / "new") == expected
    assert catalog.locate("qm9", tmp_path / "new") == new
    assert catalog.fetch("qm9", tmp_path / "new") == [f"{new / name}: already there" for name in names]
    (new / qm9_files.ARCHIVE).write_bytes(b"half")
    assert catalog.fetch("qm9", tmp_path / "new") == [expected[0], f"{new / names[1]}: already there"]


def test_fetch_of_qm9_beside_another_source(data, monkeypatch):
    monkeypatch.setattr(pooch, "retrieve", lambda *args, **kwargs: pytest.fail("downloaded"))
    assert catalog.fetch("qm9", data) == [
        f"{data / 'qm9' / one.name}: not needed beside qm9_graphs.npz" for one in qm9_files.DOWNLOADS
    ]


def test_published_addresses_and_checksums():
    downloads = [one for entry in catalog.TASKS.values() for one in getattr(entry, "downloads", ())]
    assert len(downloads) == 7
    for one in downloads:
        assert all(address.startswith("https://") for address in one.addresses)
        for found in (one.sha256, *one.kept().values()):
            assert len(found) == 64 and int(found, 16)


def test_importing_is_light():
    code = "import sys, ampnet.datasets; print(sorted({'pooch', 'requests', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
