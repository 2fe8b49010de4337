"""The three forms of QM9's files, all read into the same arrays, which `qm9.py` checks.

A table or the archive gives a SMILES and mu for each molecule; RDKit makes the graph of it, with explicit hydrogens and
in its order of atoms. RDKit is optional, and so imported only when such a form is read; all of QM9 takes it a minute or
two.
"""

from __future__ import annotations

import csv
import io
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ampnet.datasets import files
from ampnet.errors import DataError

ARRAYS = ("index", "n_atoms", "z", "n_bonds", "bond_src", "bond_dst", "bond_type", "mu", "is_valid")
"""(molecules,): index from 1, n_atoms, n_bonds, mu in debye, is_valid; (atoms,): z, atomic numbers; (bonds,): bond_src,
bond_dst, atoms from 0 within their molecule, and bond_type, 1 single, 2 double, 3 triple, 4 aromatic; each bond once."""

GRAPHS = "qm9_graphs.npz"
TABLES = ("qm9.csv", "qm9.csv.gz")
ARCHIVE = "dsgdb9nsd.xyz.tar.bz2"
UNCHARACTERIZED = "uncharacterized.txt"
VALID = ("valid_idx.txt", "valid_idx.txt.gz")
DOWNLOADS = (
    files.Download(
        ARCHIVE,
        ("https://ndownloader.figshare.com/files/3195389",),
        "3a63848ac80691bdb8d41834b575afad345b9300d7a2db0c38adb7f6eaa8360c",
        instead=(GRAPHS, *TABLES),
    ),
    files.Download(
        UNCHARACTERIZED,
        ("https://ndownloader.figshare.com/files/3195404",),
        "3aa5115d540b356de94791d4a74c3bf1ed91c469ecf52a4f5d7cc0506fe02e24",
        instead=(GRAPHS, *TABLES),
    ),
)


class Described(NamedTuple):
    """A molecule. where: file and line, for messages; index: from 1; atoms: how many, with hydrogens; mu: in debye."""

    where: str
    index: int
    smiles: str
    atoms: int
    mu: float


def find(folder: str | Path) -> Path:
    """The first source in the folder; a `DataError` if there is none."""
    names = (GRAPHS, *TABLES, ARCHIVE)
    found = files.first(folder, names)
    if found is None:
        raise DataError(f"{folder}: expected a file {' or '.join(names)}, found none")
    return found


def find_validation(folder: Path) -> Path | None:
    """The list of validation molecules, if the folder has one."""
    return files.first(folder, VALID)


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a source, as `find` gives it.

    Raises
    ------
    DataError : a file is missing or damaged (names line or member), a molecule cannot be, or RDKit is missing.
    """
    if path.name == GRAPHS:
        return _from_npz(path)
    return _from_smiles(_rows(path) if path.name in TABLES else _characterized(path), path)


def validation(folder: Path, index: np.ndarray) -> np.ndarray:
    """(molecules,) bool: whether `index`, counted from 1, is in the folder's `valid_idx.txt`, one a line.

    Without that file: whether it is in the last tenth by index.

    Raises
    ------
    DataError : the file is damaged, or lists none of the molecules.
    """
    path = find_validation(folder)
    if path is None:
        return np.argsort(np.argsort(index)) >= len(index) - len(index) // 10
    lines = enumerate(_text(path).split("\n"), 1)
    listed = [_whole(line, f"{path}, line {n}", "the index of a molecule") for n, line in lines if line.strip()]
    found = np.isin(index, listed)
    if not found.any():
        raise DataError(f"{path}: expected indices of molecules, found {len(listed)} of which none is of a molecule")
    return found


def parse_xyz(text: str, where: str) -> Described:
    """Parse an XYZ file of QM9. Its atoms and coordinates are not needed: the first SMILES is of the same atoms.

    Its lines: number of atoms; `gdb`, index, A, B, C, mu and more; a line an atom; frequencies; two SMILES; two InChI.
    Numbers may be written `2.1997*^-6`.

    Raises
    ------
    DataError : with `where`, the line, and what was expected of it.
    """
    lines = text.rstrip().split("\n")
    atoms = _whole(lines[0], f"{where}, line 1", "a number of atoms")
    if len(lines) != atoms + 5:
        raise DataError(f"{where}: expected {atoms + 5} lines, for {atoms} atoms, found {len(lines)}")
    facts, smiles = lines[1].split(), lines[atoms + 3].split()
    if len(facts) < 6 or facts[0] != "gdb":
        raise DataError(f"{where}, line 2: expected 'gdb index A B C mu ...', found {lines[1]!r}")
    if not smiles:
        raise DataError(f"{where}, line {atoms + 4}: expected a SMILES, found an empty line")
    index, mu = _whole(facts[1], f"{where}, line 2", "an index"), _real(facts[5].replace("*^", "e"), f"{where}, line 2", "mu")
    return Described(where, index, smiles[0], atoms, mu)


def _from_npz(path: Path) -> dict[str, np.ndarray]:
    arrays = files.read_arrays(path, ARRAYS)
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise DataError(f"{path}: expected arrays {', '.join(ARRAYS)}, found no {', '.join(missing)}")
    return arrays


def _rows(path: Path) -> Iterator[Described]:
    """Of a CSV file with columns index, smiles, n_atoms and mu among others."""
    table = csv.DictReader(io.StringIO(_text(path), newline=""))
    try:
        needed = ("index", "smiles", "n_atoms", "mu")
        missing = [name for name in needed if name not in (table.fieldnames or ())]
        if missing:
            raise DataError(f"{path}, line 1: expected columns {', '.join(needed)}, found no {', '.join(missing)}")
        for row in table:
            where = f"{path}, line {table.line_num}"
            if None in row or None in row.values():
                raise DataError(f"{where}: expected {len(table.fieldnames)} values, as in line 1, found more or fewer")
            index, atoms = _whole(row["index"], where, "an index"), _whole(row["n_atoms"], where, "a number of atoms")
            yield Described(where, index, row["smiles"], atoms, _real(row["mu"], where, "mu"))
    except csv.Error as error:  # such as a quote that is never closed
        raise DataError(f"{path}, line {table.line_num}: expected CSV, found it unreadable ({error})") from None


def _characterized(path: Path) -> Iterator[Described]:
    """Of the archive, less the molecules in `uncharacterized.txt` if that lies beside it."""
    listing = path.parent / UNCHARACTERIZED
    dropped = set()
    if listing.is_file():
        # a line is an index and more; those of the heading start with something else
        dropped = {int(number) for number in re.findall(r"^\s*(\d{1,9})(?!\S)", _text(listing), re.MULTILINE)}
        if not dropped:
            raise DataError(f"{listing}: expected lines that start with the index of a molecule, found none")
    return (molecule for molecule in _members(path) if molecule.index not in dropped)


def _members(path: Path) -> Iterator[Described]:
    try:
        with tarfile.open(path, "r|bz2") as tar:  # as they come: to go back would unpack it all again
            for member in tar:
                if member.isfile():
                    yield parse_xyz(tar.extractfile(member).read().decode("ascii"), f"{path}: {member.name}")
    except DataError:
        raise
    except Exception as error:  # tarfile passes on whatever a damaged header leads to
        reason = files.one_line(error)
        raise DataError(f"{path}: expected a tar.bz2 archive of XYZ files, found it unreadable ({reason})") from None


def _from_smiles(molecules: Iterable[Described], path: Path) -> dict[str, np.ndarray]:
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise DataError(f"{path}: bonds are made from SMILES, which needs RDKit: `pip install rdkit`") from None
    types = {Chem.BondType.SINGLE: 1, Chem.BondType.DOUBLE: 2, Chem.BondType.TRIPLE: 3, Chem.BondType.AROMATIC: 4}
    index, mu, n_atoms, n_bonds, z, bonds = [], [], [], [], [], []
    with rdBase.BlockLogs():  # the errors say it
        for molecule in molecules:
            graph = Chem.MolFromSmiles(molecule.smiles)
            if graph is None:
                raise DataError(f"{molecule.where}: expected a SMILES, found {molecule.smiles!r}")
            graph = Chem.AddHs(graph)
            if graph.GetNumAtoms() != molecule.atoms:
                raise DataError(
                    f"{molecule.where}: expected a SMILES of {molecule.atoms} atoms with hydrogens, "
                    f"found {graph.GetNumAtoms()} in {molecule.smiles!r}"
                )
            index.append(molecule.index)
            mu.append(molecule.mu)
            n_atoms.append(molecule.atoms)
            n_bonds.append(graph.GetNumBonds())
            z.extend(atom.GetAtomicNum() for atom in graph.GetAtoms())
            # a type that QM9 does not have becomes 0, which is then refused
            bonds.extend((b.GetBeginAtomIdx(), b.GetEndAtomIdx(), types.get(b.GetBondType(), 0)) for b in graph.GetBonds())
    numbers = np.array(index, np.int64)
    source, target, kind = np.array(bonds, np.int64).reshape(-1, 3).T
    return {
        "index": numbers,
        "n_atoms": np.array(n_atoms, np.int64),
        "z": np.array(z, np.int64),
        "n_bonds": np.array(n_bonds, np.int64),
        "bond_src": source,
        "bond_dst": target,
        "bond_type": kind,
        "mu": np.array(mu, np.float64),
        "is_valid": validation(path.parent, numbers),
    }


def _text(path: Path) -> str:
    """ASCII content, unpacked if the name ends in `.gz`."""
    try:
        return files.read(path).decode("ascii")
    except UnicodeDecodeError as error:
        form = "gzip file of text" if path.suffix == ".gz" else "text file"
        raise DataError(f"{path}: expected a {form}, found it unreadable ({error})") from None


def _whole(text: str, where: str, what: str) -> int:
    if not re.fullmatch(r"[ \t\r\n]*\d{1,9}[ \t\r\n]*", text):
        raise DataError(f"{where}: expected {what}, found {text!r}")
    return int(text)


def _real(text: str, where: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{where}: expected {what} as a number, found {text!r}") from None
