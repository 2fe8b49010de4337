"""List reduction, the task of the variable-length RNN: generated, so no file is needed.

An instance is a list of at most 10 tokens: an operation, then 1 to 9 digits L. Its label is what `reduce` gives::

    tokens   10  7  2  9        mean of 7, 2, 9
    label    6

Digits 0..9 are tokens 0..9, operations are tokens 10..13 in the order of `OPERATIONS`. Operation, number of digits
and each digit are drawn uniformly and independently.

Source: the task of the AMPNet paper (Gaunt et al., 2017); 100,000 training and 10,000 validation instances.
"""

from __future__ import annotations

import operator
from fractions import Fraction
from math import trunc

import numpy as np

from ampnet.datasets.columns import Column, Dataset, Instances, positive
from ampnet.errors import DataError, SettingError

OPERATIONS = ("mean", "mean of even places - mean of odd places", "max - min", "len")
FIRST_OPERATION = 10
VOCAB = FIRST_OPERATION + len(OPERATIONS)
CLASSES = 10
MAX_DIGITS = 9
MAX_LENGTH = 1 + MAX_DIGITS


def reduce(operation: int, digits) -> int:
    """The label of one list: the definition, in exact arithmetic.

    The result is truncated toward zero, then taken modulo 10 with Python's sign, so -3.5 gives -3 gives 7.
    The mean of the empty list counts as 0: it occurs as `mean(L[1::2])` when L has one digit.

    Parameters
    ----------
    operation : token 10..13.
    digits : sequence of 1..9 integers in 0..9.
    """
    L = list(digits)
    results = {
        10: lambda: _mean(L),
        11: lambda: _mean(L[0::2]) - _mean(L[1::2]),
        12: lambda: max(L) - min(L),
        13: lambda: len(L),
    }
    return trunc(results[operation]()) % 10


def _mean(L: list) -> Fraction:
    return Fraction(sum(L), len(L)) if L else Fraction(0)


def load(seed: int = 0, train: int = 100_000, valid: int = 10_000) -> Dataset:
    """Generate the data set; the same seed and NumPy give the same instances.

    Training and validation are separate draws from one distribution, and neither depends on the other's size. They
    may share instances, and do: of one digit there are only 40 lists, of nine digits 4 * 10**9.

    Returns
    -------
    Dataset with columns `tokens` (2..10 rows an instance, width 1, ids 0..13) and `label` (one row, width 1, 0..9);
    meta: vocab 14, classes 10, max_length 10.

    Raises
    ------
    SettingError : seed is not an integer of 0 or more, or a count is not one of 1 or more.
    """
    seeds = np.random.SeedSequence(_checked_seed(seed)).spawn(2)
    return Dataset(
        "list-reduction",
        train=_draw(np.random.default_rng(seeds[0]), positive("number of training instances", train)),
        valid=_draw(np.random.default_rng(seeds[1]), positive("number of validation instances", valid)),
        meta={"vocab": VOCAB, "classes": CLASSES, "max_length": MAX_LENGTH},
    )


def check(count: int = 2000) -> list[str]:
    """Regenerate a sample and compare each label with `reduce`; returns lines to print.

    Raises
    ------
    DataError : a label differs.
    """
    sample = load(seed=0, train=count, valid=1).train
    for i in range(count):
        operation, *digits = sample["tokens"][i][:, 0].astype(int).tolist()
        found, expected = int(sample["label"][i][0, 0]), reduce(operation, digits)
        if found != expected:
            raise DataError(f"list-reduction, instance {i}: label {found} of {[operation, *digits]} must be {expected}")
    return [f"list-reduction: {count:,} generated instances agree with their definition"]


def reduce_all(operations: np.ndarray, counts: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """`reduce` for many lists at once, in integers only.

    Parameters
    ----------
    operations : (n,) int64, 10..13.
    counts : (n,) int64, 1..9, digits that count in each row.
    digits : (n, 9) int64, 0..9; those past a row's count are ignored.

    Returns
    -------
    (n,) int64 labels in 0..9.
    """
    used = np.arange(MAX_DIGITS) < counts[:, None]
    summed = np.where(used, digits, 0)
    total, even = summed.sum(1), summed[:, 0::2].sum(1)
    n_even, n_odd = (counts + 1) // 2, np.maximum(counts // 2, 1)  # an empty sum over 1 is the 0 of `reduce`
    # even/n_even - odd/n_odd over the common denominator; it may be negative, where // would not truncate
    numerator, denominator = even * n_odd - (total - even) * n_even, n_even * n_odd
    results = [
        total // counts,
        np.sign(numerator) * (abs(numerator) // denominator),
        summed.max(1) - np.where(used, digits, 9).min(1),
        counts,
    ]
    return np.choose(operations - FIRST_OPERATION, results) % 10


def _draw(rng: np.random.Generator, n: int) -> Instances:
    operations = rng.integers(FIRST_OPERATION, VOCAB, n)
    counts = rng.integers(1, MAX_DIGITS + 1, n)
    digits = rng.integers(0, 10, (n, MAX_DIGITS))
    padded = np.column_stack([operations, digits])
    tokens = padded[np.arange(MAX_LENGTH) <= counts[:, None]]
    labels = reduce_all(operations, counts, digits)
    return Instances(
        {
            "tokens": Column(tokens, np.append(0, np.cumsum(counts + 1)), "tokens"),
            "label": Column(labels, name="label"),
        }
    )


def _checked_seed(seed) -> int:
    try:
        whole = operator.index(seed)
    except TypeError:
        whole = -1
    if whole < 0:
        raise SettingError(f"seed must be a whole number of 0 or more, not {seed!r}")
    return whole
