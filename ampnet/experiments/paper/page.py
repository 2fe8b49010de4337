"""The page about all reproductions, rendered from their CSVs.

    python -m ampnet.experiments.paper.page OUT [DOCS]

writes OUT/README.md and OUT/runs.csv anew; with DOCS it puts the page there as reproduction.md, and what it links to in
DOCS/reproduction.
"""

import csv
import json
import shutil
from pathlib import Path

import click

from ...errors import SettingError
from ...training.checkpoint import write_atomically
from ...training.metrics import read_json_lines
from ..folder import METRICS
from . import NAMES, find, sizes, tables, verdicts
from .lab import COMMANDS, CONTENTS, MACHINE, read_settings
from .runs import DONE
from .table1 import NAME as TABLE1

PAGE, RUNS = "README.md", "runs.csv"
LARGEST_PICTURE = 300_000   # bytes, in a repository
RUN_COLUMNS = ("directory", "task", "kind", "threads", "seed", "options", "epochs", "metric", "metric of each epoch",
               "seconds of each epoch", "wall seconds", "runs at a time", "date", "commit", "failed")


def write(out):
    """Write OUT/runs.csv and OUT/README.md."""
    out = Path(out)
    settings = read_settings(out)
    tables.write_csv(out / RUNS, RUN_COLUMNS, [_run(path) for path in sorted((out / "runs").glob(f"*/{DONE}"))])
    write_atomically(out / PAGE, _render(out, "", settings).encode())


def copy(out, docs):
    """Put the page into DOCS/reproduction.md and its files into DOCS/reproduction; SVGs and large PNGs stay behind."""
    out, folder = Path(out), Path(docs) / "reproduction"
    shutil.rmtree(folder, ignore_errors=True)
    for name in _present(out):
        (folder / name).mkdir(parents=True)
        for path in sorted((out / name).iterdir()):
            if path.suffix in (".csv", ".txt", ".json") or (path.suffix == ".png" and path.stat().st_size <= LARGEST_PICTURE):
                shutil.copyfile(path, folder / name / path.name)
    shutil.copyfile(out / RUNS, folder / RUNS)
    write_atomically(Path(docs) / "reproduction.md", _render(folder, "reproduction/", read_settings(out)).encode())


def _present(out):
    return [name for name in NAMES if (out / name / CONTENTS).is_file()]


def _run(path):
    """A row of runs.csv."""
    done, metrics = json.loads(path.read_text(encoding="utf-8")), path.parent / METRICS
    history = read_json_lines(metrics) if metrics.is_file() else []
    options = " ".join(f"{name}={value}" for name, value in done["options"].items())
    return [path.parent.name, done["task"], done["kind"], done["threads"], done["seed"], options, len(history),
            history[0]["metric_name"] if history else None, _listed(row["valid_metric"] for row in history),
            _listed(row["seconds"] for row in history), done["wall_seconds"], done.get("at_a_time", 1),
            done["machine"]["date"], done["machine"]["commit"], done["failed"]]


def _listed(numbers):
    return " ".join(f"{number:.5g}" for number in numbers)


def _render(out, prefix, settings):
    """The page. prefix: of links to files in `out`."""
    present = _present(out)
    machine = json.loads((out / present[-1] / MACHINE).read_text(encoding="utf-8")) if present else {}
    parts = [_head(settings, _measured_by(out, present), machine, tables.read(out / RUNS))]
    lines = [f"- {line}" for name in present for line in verdicts.sentences(name, out / name)]
    lines += [f"- **{task}**: {TABLE1} has no rows of it yet." for task in _missing(out)]
    if lines:
        parts.append("## What it says\n\nThe paper's claims, and whether they hold here. Asynchronous training is judged by "
                     "its fastest row on as many cores.\n\n" + "\n".join(lines))
    parts += [_section(out, name, prefix) for name in present]
    parts.append(f"## Runs\n\n[{RUNS}]({prefix}{RUNS}) has every run: its directory's name, which tells task, changed options "
                 "and seed, and the seconds and the validation metric of each epoch.")
    return "\n\n".join(parts) + "\n"


def _measured_by(out, present):
    """The commands as Markdown: one, unless they had different options."""
    commands = [(out / name / COMMANDS).read_text(encoding="utf-8").splitlines()[0] for name in present]
    options = {command.partition(name)[2] for name, command in zip(present, commands, strict=True)}
    if len(options) <= 1:
        commands = [f"ampnet reproduce all{''.join(options)}"]
    return ", ".join(f"`{command}`" for command in commands)


def _head(settings, commands, machine, runs):
    quick = ("**These are quick runs, on less data and to lower targets: they show that everything works, and say nothing "
             "about full size.**\n\n" if settings["quick"] else "")
    return (f"# Reproduction of the paper's tables and figures\n\n{quick}Everything here was measured by {commands}, and this "
            f"page rendered from its CSVs.{_beside(runs)}\n\n{_on(machine)}")


def _beside(runs):
    most = max((row["runs at a time"] for row in runs), default=1)
    return "" if most == 1 else (f" To save time, runs on one core were trained up to {most} at a time, each in a process "
                                 "of its own, and those on several cores alone.")


def _on(machine):
    if not machine:
        return "Nothing is measured yet."
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    commit = f" (commit {machine['commit']})" if machine["commit"] else ""
    threads = ", ".join(f"{name} {value}" for name, value in machine["threads"].items())
    return (f"Machine: {machine['cpu']}, {machine['cores']} of {machine['cores of the machine']} cores, {machine['system']}. "
            f"Versions: {versions}{commit}. Threads: {threads}. Date: {machine['date']}.")


def _missing(out):
    """Tasks that a table 1 which was interrupted lacks."""
    path = out / TABLE1 / "table1.csv"
    return sorted(sizes.FULL.keys() - {row["task"] for row in tables.read(path)}) if path.is_file() else []


def _section(out, name, prefix):
    place = f"{prefix}{name}"
    links = "; ".join(f"[{file}]({place}/{file})" for file in (COMMANDS, MACHINE))
    parts = [f"## {name}\n\n{find(name).ABOUT} ({links})"]
    for entry in json.loads((out / name / CONTENTS).read_text(encoding="utf-8")):
        stem, caption = entry["stem"], entry["caption"]
        if entry["kind"] == "picture":
            if (out / name / f"{stem}.png").is_file():
                parts.append(f"![{name}: {stem}]({place}/{stem}.png)\n\n{caption}")
            continue
        link = f"[{stem}.csv]({place}/{stem}.csv): {caption}"
        parts.append(f"{_table(out / name / f'{stem}.csv')}\n\n{link}" if entry["inline"] else link)
    return "\n\n".join(parts)


def _table(path):
    """A CSV as a Markdown table, the range of a number in one cell with it."""
    with open(path, newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
    columns = [name for name in header if not name.endswith((tables.LOWEST, tables.HIGHEST))]
    return tables.markdown(columns, [[_cell(row, name) for name in columns] for row in tables.read(path)])


def _cell(row, name):
    low, high = row.get(name + tables.LOWEST), row.get(name + tables.HIGHEST)
    return row[name] if low is None else tables.Spread(row[name], low, high)


@click.command()
@click.argument("out", type=click.Path(exists=True, file_okay=False))
@click.argument("docs", required=False, type=click.Path(file_okay=False))
def main(out, docs):
    """Render the page of the reproductions in OUT, and with DOCS copy it there."""
    try:
        write(out)
    except SettingError as error:
        raise click.ClickException(str(error)) from None
    if docs is not None:
        copy(out, docs)


if __name__ == "__main__":
    main()
