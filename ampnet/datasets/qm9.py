"""QM9: the dipole moment mu, in debye, of small organic molecules from their graphs of atoms and bonds.

Looked for in the folder, in this order:

1. `qm9_graphs.npz`, graphs made beforehand: the arrays `qm9_files.ARRAYS`, of all molecules one after the other.
2. `qm9.csv` or `qm9.csv.gz`, a table with SMILES.
3. `dsgdb9nsd.xyz.tar.bz2`, the original archive, less the molecules in `uncharacterized.txt` if that is there.

The latter two need RDKit; their validation molecules are those in `valid_idx.txt` or `valid_idx.txt.gz`, and without it
the last tenth by index. Atoms are those of the SMILES, then hydrogens.

Source: R. Ramakrishnan, P. Dral, M. Rupp, O. A. von Lilienfeld, Scientific Data 1, 140022 (2014): 133,885 molecules,
less 3,054 uncharacterized ones. Validation molecules as in Microsoft's gated-graph-neural-network-samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ampnet.datasets import qm9_files
from ampnet.datasets.columns import Column, Dataset, Instances
from ampnet.datasets.edges import fine_columns, fused_columns
from ampnet.errors import DataError

LICENCE = "CC0"
ELEMENTS = (1, 6, 7, 8, 9)
"""Atomic numbers of H, C, N, O, F, in the order of their columns in `annotation`."""
BOND_TYPES = 4
RATIO_SCALE = 0.066513725
"""The error ratio is the mean absolute error, in units of std, over this: as in MPNN's and Microsoft's sample code."""
MOLECULES = 130_831
KNOWN_MU = {1: 0.0, 2: 1.6256, 3: 1.8511, 4: 0.0, 5: 2.8937, 6: 2.1089}
"""Of CH4, NH3, H2O, C2H2, HCN, H2CO by index, in debye."""


class Molecules(NamedTuple):
    """The arrays `qm9_files.ARRAYS`, checked; integers are int64, mu is float64."""

    index: np.ndarray
    n_atoms: np.ndarray
    z: np.ndarray
    n_bonds: np.ndarray
    bond_src: np.ndarray
    bond_dst: np.ndarray
    bond_type: np.ndarray
    mu: np.ndarray
    is_valid: np.ndarray

    def take(self, chosen: np.ndarray) -> Molecules:
        """Those where the (molecules,) bool array is true."""
        atoms, bonds = np.repeat(chosen, self.n_atoms), np.repeat(chosen, self.n_bonds)
        return Molecules(
            index=self.index[chosen],
            n_atoms=self.n_atoms[chosen],
            z=self.z[atoms],
            n_bonds=self.n_bonds[chosen],
            bond_src=self.bond_src[bonds],
            bond_dst=self.bond_dst[bonds],
            bond_type=self.bond_type[bonds],
            mu=self.mu[chosen],
            is_valid=self.is_valid[chosen],
        )


def load(folder: str | Path, fine: bool = False) -> Dataset:
    """QM9's molecules, and their dipole moments standardised; there is no test part.

    Parameters
    ----------
    folder : has one of the sources above.
    fine : add the columns of `edges.fine_columns`.

    Returns
    -------
    Dataset of a molecule an instance, 117,749 for training, 13,082 for validation, with columns

    - `annotation` (atoms, 5): 1 for the element of the atom out of H, C, N, O, F, else 0.
    - `target` (one row, 1): (mu - mean) / std, both of the training molecules.
    - those of `edges.fused_columns`, of types 1 single, 2 double, 3 triple, 4 aromatic, the same in both directions.

    meta: annotation 5, edge_types 4, mean and std in debye, unit "debye", ratio_scale.

    Raises
    ------
    DataError : no source is there, it is damaged (names file and molecule or line), or RDKit is needed and missing.
    """
    molecules = read(folder)
    train, valid = molecules.take(~molecules.is_valid), molecules.take(molecules.is_valid)
    if len(valid.mu) == 0 or np.unique(train.mu).size < 2:
        raise DataError(
            f"{folder}: expected training molecules that differ in mu, and validation molecules, "
            f"found {len(train.mu)} and {len(valid.mu)} molecules"
        )
    mean, std = float(train.mu.mean()), float(train.mu.std())
    meta = {
        "annotation": len(ELEMENTS),
        "edge_types": BOND_TYPES,
        "mean": mean,
        "std": std,
        "unit": "debye",
        "ratio_scale": RATIO_SCALE,
    }
    return Dataset("qm9", *(_instances(part, mean, std, fine) for part in (train, valid)), meta=meta)


def read(folder: str | Path) -> Molecules:
    """All molecules of the first source in the folder; errors as `load`."""
    path = qm9_files.find(folder)
    return _checked(qm9_files.read(path), path)


def check(folder: str | Path) -> list[str]:
    """Parse the source and compare it with known facts, and its split with `valid_idx` if there; returns lines to print.

    Raises
    ------
    DataError : the source is missing, damaged, or not all of QM9.
    """
    path, molecules = qm9_files.find(folder), read(folder)
    if len(molecules.index) != MOLECULES:
        raise DataError(f"{path}: expected {MOLECULES:,} molecules, found {len(molecules.index):,}")
    for index, mu in KNOWN_MU.items():
        found = molecules.mu[molecules.index == index]
        if found.size != 1 or abs(found[0] - mu) > 1e-6:  # mu may be of float32
            raise DataError(f"{path}, molecule {index}: expected mu {mu}, found {found.round(6).tolist()}")
    listed = qm9_files.find_validation(path.parent)
    if listed:
        differ = np.flatnonzero(molecules.is_valid != qm9_files.validation(path.parent, molecules.index))
        if differ.size:
            raise DataError(f"{path}, molecule {molecules.index[differ[0]]}: its split differs from that in {listed.name}")
    valid = int(molecules.is_valid.sum())
    return [f"qm9: {MOLECULES - valid:,} training and {valid:,} validation molecules in {path.name}"]


def _checked(arrays: dict[str, np.ndarray], path: Path) -> Molecules:
    m = Molecules(**{name: _one_dimension(arrays[name], name, path) for name in qm9_files.ARRAYS})
    if m.index.size == 0:
        raise DataError(f"{path}: expected at least one molecule, found none")
    _check_lengths(m, path, ("n_atoms", "n_bonds", "mu", "is_valid"), len(m.index))
    _check_values(m, path, "n_atoms", m.n_atoms < 1, "1 or more")
    _check_values(m, path, "n_bonds", m.n_bonds < 0, "0 or more")
    _check_values(m, path, "mu", ~np.isfinite(m.mu), "a finite number")
    _check_lengths(m, path, ("z",), sum(m.n_atoms.tolist()))  # in int64 such a sum can wrap around
    _check_lengths(m, path, ("bond_src", "bond_dst", "bond_type"), sum(m.n_bonds.tolist()))
    _check_values(m, path, "z", ~np.isin(m.z, ELEMENTS), f"an element out of {ELEMENTS}", m.n_atoms)
    atoms = np.repeat(m.n_atoms, m.n_bonds)
    for name in ("bond_src", "bond_dst"):
        ends = getattr(m, name)
        _check_values(m, path, name, (ends < 0) | (ends >= atoms), "an atom of the molecule, from 0", m.n_bonds)
    _check_values(m, path, "bond_type", (m.bond_type < 1) | (m.bond_type > BOND_TYPES), f"1 to {BOND_TYPES}", m.n_bonds)
    return m


def _one_dimension(array: np.ndarray, name: str, path: Path) -> np.ndarray:
    kinds, dtype = {"mu": ("f", np.float64), "is_valid": ("b", bool)}.get(name, ("iu", np.int64))
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise DataError(f"{path}: expected {name} of {dtype.__name__} and one dimension, found {array.dtype} {array.shape}")
    return array.astype(dtype)


def _check_lengths(m: Molecules, path: Path, names: tuple[str, ...], length: int):
    for name in names:
        if len(getattr(m, name)) != length:
            raise DataError(f"{path}: expected {length} values of {name}, found {len(getattr(m, name))}")


def _check_values(m: Molecules, path: Path, name: str, wrong: np.ndarray, expected: str, counts: np.ndarray | None = None):
    """counts: values a molecule; None for one each."""
    places = np.flatnonzero(wrong)
    if places.size:
        p = places[0]
        i = p if counts is None else np.searchsorted(np.cumsum(counts), p, side="right")
        within = "" if counts is None else f" {p - counts[:i].sum()}"
        raise DataError(f"{path}, molecule {m.index[i]}: expected {name}{within} to be {expected}, found {getattr(m, name)[p]}")


def _instances(m: Molecules, mean: float, std: float, fine: bool) -> Instances:
    node_offsets, edge_offsets = (np.append(0, np.cumsum(counts)) for counts in (m.n_atoms, m.n_bonds))
    annotation = (m.z[:, None] == ELEMENTS).astype(np.float32)
    given = (node_offsets, edge_offsets, m.bond_src, m.bond_dst, m.bond_type - 1, BOND_TYPES, True)
    return Instances(
        {
            "annotation": Column(annotation, node_offsets, "annotation"),
            "target": Column((m.mu - mean) / std, name="target"),
            **fused_columns(*given),
            **(fine_columns(*given) if fine else {}),
        }
    )
