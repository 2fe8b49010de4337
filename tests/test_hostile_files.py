"""Files made to do harm, which no random change would find: refused by one clear line, without memory, code or a crash."""

import ast
import gzip
import io
import json
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

import ampnet
from ampnet.datasets import babi, glove, mnist, qm9
from ampnet.errors import AmpnetError, CheckpointError, DataError, SettingError
from ampnet.training import checkpoint
from tests.datasets.test_qm9 import arrays
from tests.file_kinds import DATA_KINDS, Kind, npy, npys, whole, zipped
from tests.mutations import memory_limit
from tests.test_fuzz import MEGABYTES, checkpoint_kind, machine, read_or_refuse, resolve  # noqa: F401


def assert_refused(name, raw, folder, *texts):
    kind = DATA_KINDS[name]
    kind.lay_out(folder)
    error = read_or_refuse(kind, raw, folder)
    assert isinstance(error, DataError), error
    assert Path(kind.name).name in str(error)
    for text in texts:
        assert text in str(error)


def with_part(name, **parts):
    kind = DATA_KINDS[name]
    return kind.pack(kind.parts | {f"{part}.npy": raw for part, raw in parts.items()})


@pytest.mark.parametrize("shape", [(0, 2**32 - 1, 2**32 - 1), (2**32 - 1,) * 3, (2**31, 28, 28), (1, 2**32 - 1, 0)])
def test_an_idx_header_that_promises_too_much(tmp_path, shape):
    assert_refused("idx images", bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape), tmp_path)


@pytest.mark.parametrize("dimensions", [33, 65, 255])
@pytest.mark.parametrize("size", [0, 1])
def test_an_idx_file_of_more_dimensions_than_an_array_can_have(tmp_path, dimensions, size):
    path = tmp_path / "many"
    path.write_bytes(bytes([0, 0, 8, dimensions]) + struct.pack(">I", size) * dimensions + bytes(size))
    try:
        assert mnist.read_idx(path).ndim == dimensions
    except DataError as error:
        assert str(path) in str(error)


def array_file(header):
    """An array in NumPy's own format: this header, and 36 bytes."""
    body = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(body)) + body + bytes(36)


HEADERS = {
    "terabytes": "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000, 3), }",
    "overflow": "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }",
    "wrapped": "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387913, 1), }",
    "empty": "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807), }",
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, -3), }",
    "brackets": "{'descr': " + "(" * 5000,
    "nested": "[" * 3000 + "]" * 3000,
    "minus": "-" * 9000 + "1",
    "no type": "{'descr': 'wat', 'fortran_order': False, 'shape': (3, 3), }",
    "words": "{'descr': '<U1000000000', 'fortran_order': False, 'shape': (3, 3), }",
    "no dict": "7",
    "quote": "{'descr': '''",
    "indented": "  7\n 7",
    "code": "__import__('sys').exit('evaluated')",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=list(HEADERS))
@pytest.mark.parametrize("name, part", [("glove npz", "vectors"), ("glove npz stored", "vectors"), ("qm9 npz", "mu")])
def test_an_array_whose_header_cannot_be(tmp_path, name, part, header):
    assert_refused(name, with_part(name, **{part: array_file(header)}), tmp_path)


@pytest.mark.parametrize("name", ["glove npz", "qm9 npz"])
def test_arrays_that_nobody_asked_for_stay_packed(tmp_path, name):
    kind = DATA_KINDS[name]
    kind.lay_out(tmp_path)
    (tmp_path / kind.name).write_bytes(with_part(name, more=array_file(HEADERS["terabytes"])))
    with memory_limit(MEGABYTES << 20):
        assert kind.load(tmp_path) is not None


class Trap:
    """Goes off when it is unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemExit('unpickled')",)


@pytest.mark.parametrize("name, part", [("glove npz", "vectors"), ("qm9 npz", "mu"), ("qm9 npz", "index")])
def test_an_array_of_objects_is_refused_and_not_unpickled(tmp_path, name, part):
    raw = npy(np.array([Trap(), Trap()], object))
    with pytest.raises(SystemExit, match="unpickled"):
        np.load(io.BytesIO(raw), allow_pickle=True)   # it would have gone off
    assert_refused(name, with_part(name, **{part: raw}), tmp_path, "allow_pickle")


@pytest.mark.parametrize("name", DATA_KINDS)
def test_a_pickle_in_the_place_of_a_file_is_refused(tmp_path, name):
    kind = DATA_KINDS[name]
    kind.lay_out(tmp_path)
    assert isinstance(read_or_refuse(kind, pickle.dumps(Trap()), tmp_path), AmpnetError)


@pytest.mark.parametrize("name, ends", [("n_bonds", "bond_src"), ("n_atoms", "z")])
def test_counts_whose_sum_wraps_around_are_refused(tmp_path, name, ends):
    """In 64 bits their sum is that of the bonds there are: NumPy then wrote past the end of its memory."""
    counts = np.full(5, 1 << 62, np.int64)
    counts[4] = len(arrays()[ends])
    assert_refused("qm9 npz", zipped()(npys(arrays() | {name: counts})), tmp_path, ends)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_an_archive_member_that_is_no_file_but_links_to_itself(tmp_path, kind):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in DATA_KINDS["babi archive"].parts:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, name if kind == tarfile.LNKTYPE else Path(name).name
            tar.addfile(member)
    assert_refused("babi archive", gzip.compress(buffer.getvalue()), tmp_path, babi.ARCHIVE)


def test_a_quote_that_is_never_closed_in_a_large_table(tmp_path):
    pytest.importorskip("rdkit")
    raw = DATA_KINDS["qm9 csv"].parts[""] + b'11,"' + b"11,C,5,1.5,0.0\r\n" * 20_000
    assert_refused("qm9 csv", raw, tmp_path, "line ")


POSITIONS = {
    "no table": '{"position": 3, "updates": {}}',
    "no epoch": '{"position": {}, "updates": {"embedding": 1, "cell": 1, "classifier": 1}}',
    "epoch a word": '{"position": {"epoch": "1", "best": 0.5}, "updates": {"embedding": 1, "cell": 1, "classifier": 1}}',
    "epoch below 0": '{"position": {"epoch": -1, "best": 0.5}, "updates": {"embedding": 1, "cell": 1, "classifier": 1}}',
    "no best": '{"position": {"epoch": 1}, "updates": {"embedding": 1, "cell": 1, "classifier": 1}}',
    "best a word": '{"position": {"epoch": 1, "best": "high"}, "updates": {"embedding": 1, "cell": 1, "classifier": 1}}',
    "updates no table": '{"position": {"epoch": 1, "best": 0.5}, "updates": 3}',
    "a list": "[]",
    "a number": "3",
    "deep": "[" * 100_000,
    "an update a word": '{"position": {"epoch": 1, "best": 0.5}, "updates": {"embedding": "x", "cell": 1, "classifier": 1}}',
    "infinite": '{"position": {"epoch": 1, "best": 0.5}, "updates": {"embedding": 1e400, "cell": 1, "classifier": 1}}',
    "too large": '{"position": {"epoch": 1, "best": 0.5}, "updates": {"embedding": 1e30, "cell": 1, "classifier": 1}}',
    "below 0": '{"position": {"epoch": 1, "best": 0.5}, "updates": {"embedding": -1, "cell": 1, "classifier": 1}}',
}


@pytest.mark.parametrize("saved", POSITIONS.values(), ids=list(POSITIONS))
def test_a_checkpoint_whose_position_cannot_be(machine, tmp_path, saved):  # noqa: F811
    kind = checkpoint_kind(machine, tmp_path)
    header = json.loads(kind.parts["header"])
    header["__metadata__"] = {checkpoint.FORMAT: saved}
    raw = kind.pack(kind.parts | {"header": json.dumps(header).encode()})
    assert isinstance(read_or_refuse(kind, raw, tmp_path), CheckpointError)


CONFIGS = {
    "deep array": "x = " + "[" * 100_000,
    "deep table": "x = " + "{a=" * 100_000,
    "long key": "[" + "a." * 2000 + "a]\n",
    "digits": "lr = 9" + "9" * 5000,
    "lr": "lr = 1" + "0" * 400,
    "target": "target = 1" + "0" * 400,
    **{name: f"{name} = 1" + "0" * 30 for name in ("seed", "workers", "min_update_frequency", "max_active_keys", "max_batch",
                                                  "epochs", "limit", "warmup", "step_every", "hidden", "replicas")},
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=list(CONFIGS))
def test_a_config_without_measure(tmp_path, text):
    error = read_or_refuse(Kind("mine.toml", {}, whole, resolve), text.encode(), tmp_path)
    assert isinstance(error, SettingError)


UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}


def suspicious(tree):
    """What could run code out of a file: names of modules and functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from UNPICKLERS & {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            yield from UNPICKLERS & {(node.module or "").split(".")[0]}
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            safe = any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords)
            if called in ("eval", "exec", "__import__") or (called.endswith((".load", ".read_array")) and "np" in called
                                                            and not safe):
                yield called


def test_nothing_in_the_package_unpickles_or_evaluates():
    """The one `exec` is of names that the program's own source gives, and that were checked."""
    folder, found = Path(ampnet.__file__).parent, []
    for path in sorted(folder.rglob("*.py")):
        found += [(str(path.relative_to(folder)), what) for what in suspicious(ast.parse(path.read_text(encoding="utf-8")))]
    assert found == [("graphs/tables.py", "exec")]


def test_the_readers_of_npz_files_know_their_arrays_by_name(tmp_path):
    for name, read in (("glove npz", lambda: glove.read(tmp_path / "a.npz")), ("qm9 npz", lambda: qm9.read(tmp_path))):
        kind = DATA_KINDS[name]
        kind.lay_out(tmp_path)
        (tmp_path / kind.name).write_bytes(zipped()({"other.npy": npy(np.zeros(3))}))
        with pytest.raises(DataError, match="expected (an array|arrays)"):
            read()
