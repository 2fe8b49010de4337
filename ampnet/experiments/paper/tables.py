"""Tables: a CSV with every number, and the same rendered in Markdown for people."""

import csv
import io
from statistics import median
from typing import NamedTuple

from ...training.checkpoint import write_atomically

LOWEST, HIGHEST = ", lowest", ", highest"   # columns of a spread, beside that of its median


class Spread(NamedTuple):
    """Of one number over several seeds."""

    median: float
    lowest: float
    highest: float


def spread(numbers) -> Spread | None:
    """Of the numbers that are there."""
    known = [number for number in numbers if number is not None]
    return Spread(median(known), min(known), max(known)) if known else None


def write(folder, stem, columns, rows):
    """Write STEM.csv and STEM.md. columns: headings; rows: a sequence of cells each, None where there is nothing to say."""
    write_csv(folder / f"{stem}.csv", columns, rows)
    write_atomically(folder / f"{stem}.md", (markdown(columns, rows) + "\n").encode())


def write_csv(path, columns, rows):
    """A column that holds a `Spread` gets two more, of the lowest and the highest."""
    spreads = [any(isinstance(row[i], Spread) for row in rows) for i in range(len(columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for i, column in enumerate(columns)
                     for name in ((column, column + LOWEST, column + HIGHEST) if spreads[i] else (column,))])
    for row in rows:
        writer.writerow([_exact(number) for i, cell in enumerate(row) for number in _parts(cell, spreads[i])])
    write_atomically(path, text.getvalue().encode())


def _parts(cell, is_spread):
    if not is_spread:
        return (cell,)
    return cell if isinstance(cell, Spread) else (cell, None, None)


def _exact(cell):
    if isinstance(cell, bool):
        return show(cell)
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return "" if cell is None else cell


def read(path) -> list[dict]:
    """The rows of a CSV: heading -> number where it is one, text where not, None where empty."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _number(text):
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def markdown(columns, rows) -> str:
    """A Markdown table, rendered."""
    lines = [columns, ["---"] * len(columns), *([show(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def show(cell) -> str:
    """A cell for people: three figures that count, and the range of a spread behind its median."""
    if cell is None:
        return ""
    if isinstance(cell, Spread):
        middle, low, high = (show(number) for number in cell)
        return middle if low == high else f"{middle} ({low} to {high})"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell).replace("|", "\\|")
