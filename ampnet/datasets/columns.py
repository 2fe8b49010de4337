"""The one in-memory form of every data set: ragged columns.

A `Column` holds the rows of all instances one after the other, and where each instance's rows start::

    tokens   values  [[10], [3], [5], [12], [7]]     instance 0 has rows 0..2, instance 1 rows 3..4
             offsets [0, 3, 5]

`Instances` are columns of equal instance count; a `Dataset` is its training, validation and test `Instances`.
Compiled code reads these arrays without a check of its own, so everything is checked here, once.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import numpy as np

from ampnet.errors import DataError, SettingError

LONGEST_SHOWN = 40
"""Characters of a value of `meta` that `repr` shows."""

LARGEST_ID = 2**24
"""float32 tells all integers below this apart, and not the next ones."""


class Column:
    """Rows of numbers, some for each instance.

    Parameters
    ----------
    values : (total rows, width), or (total rows,) for width 1; any real dtype. Kept as float32, C-contiguous, and
        without a copy where it is so already. Give ids (tokens, labels) as an integer dtype: then those which
        float32 cannot hold are refused.
    offsets : (instances + 1,) integers from 0 to total rows, non-decreasing; kept as int64. Left out, each row is
        an instance.
    name : used in error messages.

    Raises
    ------
    DataError : a value is not finite, an id is 2**24 or more, or shapes or offsets do not fit.
    """

    __slots__ = ("_integers", "name", "offsets", "values")

    def __init__(self, values, offsets=None, name: str = "column"):
        self.name, self._integers = name, None
        self.values = _as_values(values, name)
        if offsets is None:
            offsets = np.arange(len(self.values) + 1)
        self.offsets = _as_offsets(offsets, len(self.values), name)

    @property
    def width(self) -> int:
        return self.values.shape[1]

    @property
    def rows(self) -> int:
        return len(self.values)

    def integers(self) -> np.ndarray:
        """The values as int32, (total rows, width), made once; `DataError` where one is no whole number."""
        if self._integers is None:
            whole = self.values.astype(np.int32)
            if not np.array_equal(whole, self.values):
                row, value = _first(self.values, whole != self.values)
                raise DataError(f"column {self.name!r}, row {row}: {value} is no whole number, expected one")
            self._integers = whole
        return self._integers

    def __len__(self) -> int:
        """Number of instances."""
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        """Rows of instance i: a view, (its rows, width) float32."""
        i = range(len(self))[operator.index(i)]
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __repr__(self) -> str:
        return f"Column({self.name!r}: {len(self):,} instances, {self.rows:,} rows, width {self.width})"


class Instances:
    """Columns which describe the same instances.

    Parameters
    ----------
    columns : name -> `Column`.
    exchangeable_rows : an instance is a batch of independent rows (100 images, say). All columns then have the same
        offsets, and a trainer may deal the rows out anew every epoch, the same way in every column.

    Raises
    ------
    DataError : no columns, or their instance counts (or, for exchangeable rows, their offsets) differ.
    """

    def __init__(self, columns: dict[str, Column], exchangeable_rows: bool = False):
        if not columns:
            raise DataError("instances need at least one column")
        self.columns = dict(columns)
        self.exchangeable_rows = exchangeable_rows
        self._check_counts()
        if exchangeable_rows:
            self._check_same_offsets()

    def _check_counts(self):
        counts = {name: len(column) for name, column in self.columns.items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name!r} has {count}" for name, count in counts.items())
            raise DataError(f"columns differ in their number of instances: {listed}")

    def _check_same_offsets(self):
        first, *others = self.columns
        for other in others:
            if not np.array_equal(self.columns[first].offsets, self.columns[other].offsets):
                raise DataError(
                    f"columns {first!r} and {other!r} are exchangeable row by row, but their offsets differ"
                )

    @property
    def examples(self) -> int:
        """What a user counts: instances, or rows when these are exchangeable."""
        return self._any_column().rows if self.exchangeable_rows else len(self)

    def take(self, n: int) -> Instances:
        """The first n examples, or all if there are fewer, as views; the last batch may be short.

        Raises
        ------
        SettingError : n is not a positive integer.
        """
        n = min(positive("number of examples to take", n), self.examples)
        columns = {}
        for name, column in self.columns.items():
            offsets = _up_to_row(column.offsets, n) if self.exchangeable_rows else column.offsets[: n + 1]
            columns[name] = Column(column.values[: offsets[-1]], offsets, column.name)
        return Instances(columns, self.exchangeable_rows)

    def __len__(self) -> int:
        """Number of instances."""
        return len(self._any_column())

    def __getitem__(self, name: str) -> Column:
        try:
            return self.columns[name]
        except KeyError:
            raise DataError(f"no column {name!r}; there are {', '.join(self.columns)}") from None

    def _any_column(self) -> Column:
        return next(iter(self.columns.values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name} (width {column.width})" for name, column in self.columns.items())
        batches = f" in {len(self):,} batches" if self.exchangeable_rows else ""
        return f"Instances({self.examples:,} examples{batches}: {inside})"


@dataclass(repr=False)
class Dataset:
    """A named data set. `meta` holds what a model needs to know of it, such as vocab, classes, width."""

    name: str
    train: Instances
    valid: Instances
    test: Instances | None = None
    meta: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        parts = [
            f"{part} {instances.examples:,}"
            for part, instances in (("train", self.train), ("valid", self.valid), ("test", self.test))
            if instances is not None
        ]
        facts = "".join(_fact(key, value) for key, value in self.meta.items())
        return f"Dataset({self.name}: {', '.join(parts)}{facts})"


def batched(columns_as_matrices: dict[str, np.ndarray], batch: int) -> Instances:
    """Independent rows as instances of `batch` rows each; the last may be short.

    Parameters
    ----------
    columns_as_matrices : name -> (rows, width) or (rows,), the same number of rows in all.
    batch : rows an instance, 1 or more.

    Raises
    ------
    DataError : row counts differ, or a value is refused by `Column`.
    SettingError : batch is not a positive integer.
    """
    batch = positive("batch", batch)
    flat = {name: Column(matrix, name=name) for name, matrix in columns_as_matrices.items()}
    rows = Instances(flat).examples  # which checks that they agree
    offsets = _up_to_row(np.arange(0, rows, batch), rows)
    return Instances({name: Column(column.values, offsets, name) for name, column in flat.items()}, True)


def positive(what: str, number) -> int:
    """`number` as an int of 1 or more; a `SettingError` that names `what` otherwise."""
    try:
        whole = operator.index(number)
    except TypeError:
        whole = 0
    if whole < 1:
        raise SettingError(f"{what} must be a whole number of 1 or more, not {number!r}")
    return whole


def _fact(key: str, value) -> str:
    """An entry of `meta` for a reader: its value if that is short, only the size of arrays and lists."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return f"; {key} {value}" if len(str(value)) <= LONGEST_SHOWN else ""
    shape = value.shape if isinstance(value, np.ndarray) else (len(value),)
    return f"; {key} of {' x '.join(f'{size:,}' for size in shape)}"


def _up_to_row(offsets: np.ndarray, rows: int) -> np.ndarray:
    return np.append(offsets[offsets < rows], rows)


def _as_values(values, name: str) -> np.ndarray:
    given = _as_matrix(values, name)
    if given.dtype.kind in "iu":
        _check_ids(given, name)
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, and is reported as what it was
        kept = np.ascontiguousarray(given, np.float32)
    # min and max carry a NaN along and need no temporary array, unlike isfinite over all of MNIST
    if kept.size and not (np.isfinite(kept.min()) and np.isfinite(kept.max())):
        row, value = _first(given, ~np.isfinite(kept))
        raise DataError(f"column {name!r}, row {row}: {value} is not a finite float32 number")
    return kept


def _as_matrix(values, name: str) -> np.ndarray:
    try:
        given = np.asarray(values)
    except ValueError as error:  # lists of unequal lengths
        raise DataError(f"column {name!r}: values are no rectangular array ({error})") from None
    if given.dtype.kind not in "biuf":
        raise DataError(f"column {name!r}: values must be real numbers, not {given.dtype}")
    if given.ndim == 1:
        given = given[:, None]
    if given.ndim != 2 or given.shape[1] == 0:
        raise DataError(f"column {name!r}: values must be of shape (rows, width), width > 0, not {given.shape}")
    return given


def _check_ids(given: np.ndarray, name: str):
    if given.size and (given.max() >= LARGEST_ID or given.min() <= -LARGEST_ID):
        row, value = _first(given, (given >= LARGEST_ID) | (given <= -LARGEST_ID))
        raise DataError(f"column {name!r}, row {row}: id {value} is not below 2**24, so float32 cannot hold it exactly")


def _first(given: np.ndarray, wrong: np.ndarray):
    """(row, value) of the first wrong element."""
    row, place = np.argwhere(wrong)[0]
    return row, given[row, place]


def _as_offsets(offsets, rows: int, name: str) -> np.ndarray:
    given = np.asarray(offsets)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise DataError(
            f"column {name!r}: offsets must be integers of shape (instances + 1,), not {given.dtype} {given.shape}"
        )
    kept = np.ascontiguousarray(given, np.int64)
    if kept[0] != 0:
        raise DataError(f"column {name!r}: offsets must start at 0, not {kept[0]}")
    falls = np.flatnonzero(kept[1:] < kept[:-1])
    if falls.size:
        i = falls[0]
        raise DataError(f"column {name!r}, instance {i}: offsets fall from {kept[i]} to {kept[i + 1]}")
    if kept[-1] != rows:
        raise DataError(f"column {name!r}: offsets end at {kept[-1]}, but there are {rows} rows")
    return kept
