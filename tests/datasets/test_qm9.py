import bz2
import csv
import gzip
import io
import os
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampnet.datasets import qm9, qm9_files
from ampnet.errors import DataError

REAL = os.environ.get("AMPNET_DATA")
# what RDKit makes of these SMILES is written out in `arrays`
MOLECULES = [(1, "C", 5, 0.0), (3, "O", 3, 1.8511), (5, "C#N", 3, 2.8937), (6, "C=O", 4, 2.1089), (9, "c1cc[nH]c1", 10, 1.7)]
IDS_OF_VALID = "3\n9\n"


def needs_rdkit():
    pytest.importorskip("rdkit")


@pytest.fixture
def real():
    """The folder of the real QM9; skips where there is none."""
    if not REAL or not (Path(REAL) / "qm9").is_dir():
        pytest.skip("AMPNET_DATA names no folder with qm9/")
    return Path(REAL) / "qm9"


def arrays():
    """Methane, water, HCN, formaldehyde, pyrrole, in the layout of the npz."""
    bonds = [
        *[(0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1)],
        *[(0, 1, 1), (0, 2, 1)],
        *[(0, 1, 3), (0, 2, 1)],
        *[(0, 1, 2), (0, 2, 1), (0, 3, 1)],
        *[(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 4, 4), (4, 0, 4)],
        *[(0, 5, 1), (1, 6, 1), (2, 7, 1), (3, 8, 1), (4, 9, 1)],
    ]
    source, target, kind = np.array(bonds, np.uint8).T
    return {
        "index": np.array([1, 3, 5, 6, 9], np.int32),
        "n_atoms": np.array([5, 3, 3, 4, 10], np.uint8),
        "z": np.array([6, 1, 1, 1, 1, 8, 1, 1, 6, 7, 1, 6, 8, 1, 1, 6, 6, 6, 7, 6, 1, 1, 1, 1, 1], np.uint8),
        "n_bonds": np.array([4, 2, 2, 3, 10], np.uint8),
        "bond_src": source,
        "bond_dst": target,
        "bond_type": kind,
        "mu": np.array([0.0, 1.8511, 2.8937, 2.1089, 1.7], np.float32),
        "is_valid": np.array([False, True, False, False, True]),
    }


def write_npz(folder, change=()):
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / qm9_files.GRAPHS, **{**arrays(), **dict(change)})


def write_table(folder, molecules=MOLECULES, name="qm9.csv", valid=IDS_OF_VALID):
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["index", "smiles", "n_atoms", "A", "mu"])
    table.writerows([index, smiles, atoms, 1.5, mu] for index, smiles, atoms, mu in molecules)
    raw = text.getvalue().encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    if valid is not None:
        (folder / "valid_idx.txt").write_text(valid)


def xyz(index, smiles, atoms, mu):
    lines = [str(atoms), f"gdb {index}\t157.7118\t157.70997\t157.70699\t{mu}\t13.21\t"]
    lines += ["C\t-0.0126981359\t 1.0858041578\t 2.1997*^-6\t-0.535689"] * atoms
    return "\n".join([*lines, "1341.307\t1341.3284", f"{smiles}\t{smiles}x\t", "InChI=1S/CH4/h1H4\tInChI=1S/CH4/h1H4"]) + "\n"


def write_archive(folder, texts):
    with tarfile.open(folder / qm9_files.ARCHIVE, "w:bz2") as tar:
        for i, text in enumerate(texts):
            member = tarfile.TarInfo(f"dsgdb9nsd_{i:06}.xyz")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))


def assert_same(found, expected):
    for part in ("train", "valid"):
        columns, others = getattr(found, part).columns, getattr(expected, part).columns
        assert columns.keys() == others.keys()
        for name in columns:
            assert np.array_equal(columns[name].offsets, others[name].offsets)
            np.testing.assert_allclose(columns[name].values, others[name].values, atol=1e-6)  # mu of float32 or float64


def failure(call, *arguments):
    """The text, of one line, of the DataError which the call raises."""
    with pytest.raises(DataError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_small_npz(tmp_path):
    write_npz(tmp_path)
    data = qm9.load(tmp_path)
    mu = np.array([0.0, 2.8937, 2.1089])
    assert (data.name, data.train.examples, data.valid.examples, data.test) == ("qm9", 3, 2, None)
    assert data.meta["mean"] == pytest.approx(mu.mean(), abs=1e-6)
    assert data.meta["std"] == pytest.approx(mu.std(), abs=1e-6)
    facts = {key: value for key, value in data.meta.items() if key not in ("mean", "std")}
    assert facts == {"annotation": 5, "edge_types": 4, "unit": "debye", "ratio_scale": 0.066513725}
    np.testing.assert_allclose(data.train["target"].values[:, 0], (mu - mu.mean()) / mu.std(), atol=1e-6)
    np.testing.assert_allclose(data.valid["target"].values[0], (1.8511 - mu.mean()) / mu.std(), atol=1e-6)
    hydrogen, carbon, oxygen = np.eye(5)[[0, 1, 3]].tolist()
    assert data.train["annotation"][0].tolist() == [carbon] + [hydrogen] * 4
    assert data.train["annotation"][2].tolist() == [carbon, oxygen, hydrogen, hydrogen]
    assert data.train["sources1"][2].tolist() == [[0], [2], [3]]
    assert data.train["edges1"][2].tolist() == [[0, 2], [0, 3], [1, 0], [2, 0]]
    assert data.train["edges2"][2].tolist() == [[0, 1], [1, 0]]
    assert [len(data.train["edges3"][i]) for i in range(3)] == [0, 2, 0]
    assert len(data.valid["edges4"][1]) == 10


def test_fine_adds_columns(tmp_path):
    write_npz(tmp_path)
    fused, fine = (qm9.load(tmp_path, fine=fine).train.columns for fine in (False, True))
    assert {"annotation", "target", *(f"{name}{k}" for name in ("sources", "edges") for k in range(1, 5))} == set(fused)
    assert {"edge_source", "first_edge", "typed"} <= set(fine) - set(fused)
    assert fine["out_degree"][0].tolist() == [[4], [1], [1], [1], [1]]


def changed(name, place, value):
    array = arrays()[name].astype(type(value))
    array[place] = value
    return {name: array}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed("z", 9, 17), "molecule 5: expected z 1 to be an element out of (1, 6, 7, 8, 9), found 17"),
        (changed("bond_src", 4, 3), "molecule 3: expected bond_src 0 to be an atom of the molecule, from 0, found 3"),
        (changed("bond_dst", 20, 255), "molecule 9: expected bond_dst 9 to be an atom of the molecule, from 0, found 255"),
        (changed("bond_dst", 0, -1), "molecule 1: expected bond_dst 0 to be an atom of the molecule, from 0, found -1"),
        (changed("bond_type", 6, 0), "molecule 5: expected bond_type 0 to be 1 to 4, found 0"),
        (changed("bond_type", 6, 5), "molecule 5: expected bond_type 0 to be 1 to 4, found 5"),
        (changed("mu", 3, np.nan), "molecule 6: expected mu to be a finite number, found nan"),
        (changed("mu", 3, np.inf), "molecule 6: expected mu to be a finite number, found inf"),
        (changed("n_atoms", 1, 0), "molecule 3: expected n_atoms to be 1 or more, found 0"),
        (changed("n_atoms", 1, 4), "expected 26 values of z, found 25"),
        (changed("n_bonds", 1, -2), "molecule 3: expected n_bonds to be 0 or more, found -2"),
        (changed("n_bonds", 1, 3), "expected 22 values of bond_src, found 21"),
        ({"bond_type": np.ones(20, int)}, "expected 21 values of bond_type, found 20"),
        ({"mu": np.ones(6)}, "expected 5 values of mu, found 6"),
        ({"n_atoms": np.ones(4, int)}, "expected 5 values of n_atoms, found 4"),
        ({"z": np.ones(25)}, "expected z of int64 and one dimension, found float64 (25,)"),
        ({"mu": np.ones((5, 1))}, "expected mu of float64 and one dimension, found float64 (5, 1)"),
        ({"is_valid": np.ones(5, int)}, "expected is_valid of bool and one dimension, found int64 (5,)"),
        ({"is_valid": np.zeros(5, bool)}, "found 5 and 0 molecules"),
        ({"is_valid": np.ones(5, bool)}, "found 0 and 5 molecules"),
        ({"mu": np.ones(5)}, "expected training molecules that differ in mu"),
        ({"z": np.array([None] * 25)}, "expected a .npz file of numbers, found it truncated or corrupt (Object arrays"),
        ({name: array[:0] for name, array in arrays().items()}, "expected at least one molecule, found none"),
    ],
)
def test_wrong_arrays(tmp_path, change, said):
    write_npz(tmp_path, change)
    text = failure(qm9.load, tmp_path)
    assert str(tmp_path) in text and said in text


@pytest.mark.parametrize("name", qm9_files.ARRAYS)
def test_missing_array(tmp_path, name):
    np.savez(tmp_path / qm9_files.GRAPHS, **{other: array for other, array in arrays().items() if other != name})
    text = failure(qm9.load, tmp_path)
    assert qm9_files.GRAPHS in text and f"found no {name}" in text


@given(st.data())
def test_damaged_npz(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    write_npz(folder)
    raw = (folder / qm9_files.GRAPHS).read_bytes()
    whole = qm9.load(folder)
    (folder / qm9_files.GRAPHS).write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    assert f"{qm9_files.GRAPHS}: expected a .npz file of numbers, found it truncated or corrupt" in failure(qm9.load, folder)
    damaged = bytearray(raw)
    damaged[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    (folder / qm9_files.GRAPHS).write_bytes(damaged)
    try:
        assert_same(qm9.load(folder), whole)  # a time stamp, say
    except DataError as error:
        assert qm9_files.GRAPHS in str(error)


def test_a_single_array_is_no_npz(tmp_path):
    with open(tmp_path / qm9_files.GRAPHS, "wb") as file:
        np.save(file, np.arange(3))
    assert "expected a .npz file of numbers" in failure(qm9.load, tmp_path)


def test_no_source(tmp_path):
    text = failure(qm9.load, tmp_path)
    assert str(tmp_path) in text and "qm9_graphs.npz or qm9.csv or qm9.csv.gz or dsgdb9nsd.xyz.tar.bz2" in text


@pytest.mark.parametrize("name", qm9_files.TABLES)
def test_table(tmp_path, name):
    needs_rdkit()
    write_table(tmp_path, name=name)
    write_npz(tmp_path / "graphs")
    assert_same(qm9.load(tmp_path), qm9.load(tmp_path / "graphs"))


def test_archive(tmp_path):
    needs_rdkit()
    write_archive(tmp_path, [xyz(*molecule) for molecule in [*MOLECULES, (7, "CC", 8, 1.0)]])
    (tmp_path / "uncharacterized.txt").write_text("=====\nCompounds 1 to\n\n     7   CC   x\n  134000 C C\n")
    (tmp_path / "valid_idx.txt.gz").write_bytes(gzip.compress(IDS_OF_VALID.encode()))
    write_npz(tmp_path / "graphs")
    assert_same(qm9.load(tmp_path), qm9.load(tmp_path / "graphs"))
    (tmp_path / "uncharacterized.txt").unlink()
    assert qm9.load(tmp_path).train.examples == 4


def test_graphs_go_first_then_the_table(tmp_path):
    needs_rdkit()
    write_archive(tmp_path, ["not XYZ"])
    write_table(tmp_path, MOLECULES[1:], valid=IDS_OF_VALID)
    assert qm9.load(tmp_path).train.examples == 2
    write_npz(tmp_path)
    assert qm9.load(tmp_path).train.examples == 3


def test_without_rdkit(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    write_table(tmp_path)
    text = failure(qm9.load, tmp_path)
    assert "qm9.csv" in text and "needs RDKit: `pip install rdkit`" in text
    write_npz(tmp_path)
    assert qm9.load(tmp_path).train.examples == 3


def test_the_last_tenth_is_for_validation_if_there_is_no_list(tmp_path):
    index = np.arange(25)[::-1] + 100
    assert index[qm9_files.validation(tmp_path, index)].tolist() == [124, 123]
    assert not qm9_files.validation(tmp_path, np.arange(9)).any()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3\nx\n", "valid_idx.txt, line 2: expected the index of a molecule, found 'x'"),
        ("", "found 0 of which none is of a molecule"),
        ("4\n7\n", "found 2 of which none is of a molecule"),
    ],
)
def test_wrong_list_of_validation_molecules(tmp_path, text, said):
    (tmp_path / "valid_idx.txt").write_text(text)
    assert said in failure(qm9_files.validation, tmp_path, np.array([1, 3]))


@pytest.mark.parametrize("raw", [b"", gzip.compress(b"3\n")[:-9], b"3\n", gzip.compress("é".encode())])
def test_damaged_gzip_files(tmp_path, raw):
    (tmp_path / "valid_idx.txt.gz").write_bytes(raw)
    assert "valid_idx.txt.gz: expected" in failure(qm9_files.validation, tmp_path, np.array([1, 3]))


@pytest.mark.parametrize(
    ("molecule", "said"),
    [
        ((5, "C#", 3, 0), "qm9.csv, line 3: expected a SMILES, found 'C#'"),
        ((5, "C#N", 4, 0), "qm9.csv, line 3: expected a SMILES of 4 atoms with hydrogens, found 3 in 'C#N'"),
        (("x", "C#N", 3, 0), "qm9.csv, line 3: expected an index, found 'x'"),
        ((5, "C#N", -3, 0), "qm9.csv, line 3: expected a number of atoms, found '-3'"),
        ((5, "C#N", 3, "low"), "qm9.csv, line 3: expected mu as a number, found 'low'"),
        ((5, "C#N", 3, "nan"), "qm9.csv, molecule 5: expected mu to be a finite number, found nan"),
        ((5, "CCl", 5, 0), "qm9.csv, molecule 5: expected z 1 to be an element out of (1, 6, 7, 8, 9), found 17"),
        ((5, "C$C", 2, 0), "qm9.csv, molecule 5: expected bond_type 0 to be 1 to 4, found 0"),
    ],
)
def test_wrong_rows_of_a_table(tmp_path, molecule, said):
    needs_rdkit()
    write_table(tmp_path, [MOLECULES[0], molecule], valid="1\n")
    assert said in failure(qm9.load, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: expected columns index, smiles, n_atoms, mu, found no index, smiles, n_atoms, mu"),
        ("index,smiles,n_atoms\n1,C,5\n", "line 1: expected columns index, smiles, n_atoms, mu, found no mu"),
        ("index,smiles,n_atoms,mu\n1,C,5\n", "line 2: expected 4 values"),
        ("index,smiles,n_atoms,mu\n1,C,5,0.,3\n", "line 2: expected 4 values"),
        ("index,smiles,n_atoms,mu\n", "qm9.csv: expected at least one molecule"),
    ],
)
def test_wrong_tables(tmp_path, text, said):
    needs_rdkit()
    (tmp_path / "qm9.csv").write_text(text)
    text = failure(qm9.load, tmp_path)
    assert "qm9.csv" in text and said in text


def test_parse_xyz():
    assert qm9_files.parse_xyz(xyz(5, "C#N", 3, "2.8937"), "m") == ("m", 5, "C#N", 3, 2.8937)
    assert qm9_files.parse_xyz(xyz(5, "C#N", 3, "1.5*^-6"), "m").mu == 1.5e-6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("3\n", "three\n"), "m, line 1: expected a number of atoms, found 'three'"),
        (("3\n", "4\n"), "m: expected 9 lines, for 4 atoms, found 8"),
        (("gdb", "GDB"), "m, line 2: expected 'gdb index A B C mu ...', found 'GDB 5"),
        (("gdb 5", "gdb five"), "m, line 2: expected an index, found 'five'"),
        (("\t1.25", "\t1.2.5"), "m, line 2: expected mu as a number, found '1.2.5'"),
        (("\t1.25\t13.21\t", ""), "m, line 2: expected 'gdb index A B C mu ...'"),
        (("C#N\tC#Nx\t", ""), "m, line 7: expected a SMILES, found an empty line"),
    ],
)
def test_wrong_xyz(change, said):
    text = xyz(5, "C#N", 3, 1.25)
    assert change[0] in text
    assert said in failure(qm9_files.parse_xyz, text.replace(*change, 1), "m")


def test_wrong_archives(tmp_path):
    needs_rdkit()
    path = tmp_path / qm9_files.ARCHIVE
    write_archive(tmp_path, [xyz(*molecule) for molecule in MOLECULES])
    raw = path.read_bytes()
    for damaged in (b"", raw[: len(raw) // 2], b"not packed", bz2.compress(b"no archive"), bz2.compress(b"")):
        path.write_bytes(damaged)
        assert qm9_files.ARCHIVE in failure(qm9.load, tmp_path)
    write_archive(tmp_path, [xyz(*MOLECULES[0]), "5\n"])
    assert f"{qm9_files.ARCHIVE}: dsgdb9nsd_000001.xyz: expected 10 lines, for 5 atoms, found 1" in failure(qm9.load, tmp_path)
    write_archive(tmp_path, [xyz(1, "é", 1, 0)])
    text = failure(qm9.load, tmp_path)
    assert qm9_files.ARCHIVE in text and "unreadable" in text
    (tmp_path / "uncharacterized.txt").write_text("none\n")
    assert "uncharacterized.txt: expected lines that start with the index of a molecule" in failure(qm9.load, tmp_path)


def test_check_wants_all_of_qm9(tmp_path, monkeypatch):
    write_npz(tmp_path)
    assert "expected 130,831 molecules, found 5" in failure(qm9.check, tmp_path)
    monkeypatch.setattr(qm9, "MOLECULES", 5)
    assert "molecule 2: expected mu 1.6256, found []" in failure(qm9.check, tmp_path)
    monkeypatch.setattr(qm9, "KNOWN_MU", {3: 1.8511, 9: 1.7})
    assert qm9.check(tmp_path) == ["qm9: 3 training and 2 validation molecules in qm9_graphs.npz"]
    (tmp_path / "valid_idx.txt").write_text("3\n6\n")
    assert "molecule 6: its split differs from that in valid_idx.txt" in failure(qm9.check, tmp_path)
    monkeypatch.setattr(qm9, "KNOWN_MU", {3: 1.8546})
    assert "molecule 3: expected mu 1.8546, found [1.8511]" in failure(qm9.check, tmp_path)


def test_real(real):
    data = qm9.load(real, fine=True)
    assert (data.train.examples, data.valid.examples, data.test) == (117_749, 13_082, None)
    assert data.meta["mean"] == pytest.approx(2.671456, abs=1e-6)
    assert data.meta["std"] == pytest.approx(1.499647, abs=1e-6)
    target = data.train["target"].values.astype(float)
    assert abs(target.mean()) < 1e-6
    assert target.std() == pytest.approx(1, abs=1e-6)
    assert len(qm9.check(real)) == 1
    mu = (target[:5, 0] * data.meta["std"] + data.meta["mean"]).round(4).tolist()
    assert mu == [0.0, 1.6256, 1.8511, 0.0, 2.8937]
    assert data.train["annotation"][0].tolist() == np.eye(5)[[1, 0, 0, 0, 0]].tolist()  # methane
    assert data.train["sources1"][0].tolist() == [[0], [1], [2], [3], [4]]
    assert data.train["edges1"][0].tolist() == [[0, 1], [0, 2], [0, 3], [0, 4], [1, 0], [2, 0], [3, 0], [4, 0]]
    assert [len(data.train[f"edges{k}"][0]) for k in (2, 3, 4)] == [0, 0, 0]


def test_real_molecules(real):
    molecules = qm9.read(real)
    assert np.bincount(molecules.z)[[1, 6, 7, 8, 9]].tolist() == [1_208_486, 831_925, 132_498, 183_265, 3_036]
    assert np.bincount(molecules.bond_type)[1:].tolist() == [2_190_599, 91_076, 36_645, 122_040]
    assert (len(molecules.mu), molecules.n_atoms.max(), int(molecules.is_valid.sum())) == (130_831, 29, 13_082)
    assert (molecules.mu.min(), molecules.mu.max()) == (0, pytest.approx(29.5564, abs=1e-4))
    assert (molecules.mu.mean(), molecules.mu.std()) == (pytest.approx(2.67295, abs=1e-5), pytest.approx(1.50347, abs=1e-5))
    assert np.array_equal(molecules.is_valid, qm9_files.validation(real, molecules.index))


def test_real_table_gives_the_graphs_of_the_npz(real, tmp_path):
    needs_rdkit()
    with gzip.open(real / "qm9.csv.gz", "rt") as table:
        (tmp_path / "qm9.csv").write_text("".join(next(table) for _ in range(1001)))
    (tmp_path / "valid_idx.txt.gz").write_bytes((real / "valid_idx.txt.gz").read_bytes())
    molecules = qm9.read(real)
    expected = molecules.take(np.arange(len(molecules.mu)) < 1000)
    for found, array in zip(qm9.read(tmp_path), expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-6)
