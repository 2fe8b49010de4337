"""What a reproduction works with: runs that are trained once for all of them, tables, pictures, and a note of every command."""

import json
from pathlib import Path
from typing import NamedTuple

from ...errors import SettingError
from ...training.checkpoint import write_atomically
from . import beside, machine, plots, runs, sizes, tables
from .spec import AMPNET, TORCH, Spec

SETTINGS = "settings.json"   # of all reproductions: quick or not, and how many seeds
CONTENTS, COMMANDS, MACHINE = "contents.json", "commands.txt", "machine.json"


class Row(NamedTuple):
    """A row of a table: one run a seed. The fields are those of `Spec`."""

    label: str
    task: str
    options: dict
    kind: str = AMPNET
    threads: int = 1

    def spec(self, seed):
        return Spec(self.task, self.options, seed, self.kind, self.threads)


class Lab:
    """For one reproduction, `name`, in the folder of all of them.

    quick: less data, fewer rows; seeds: list of ints; out: this reproduction's own Path, which exists; data: folder of the
    data files or None; tell: takes a line of progress; jobs: runs of one worker to train at a time. Used in a `with`, which
    writes down commands, machine and contents.
    """

    def __init__(self, name, quick, seeds, folder, data, tell, jobs=1):
        self.name, self.quick, self.seeds, self.data, self.tell, self.jobs = name, quick, list(seeds), data, tell, jobs
        self.runs, self.out = Path(folder) / "runs", Path(folder) / name
        self.out.mkdir(parents=True, exist_ok=True)
        self.failed = []        # a line for each run that came to no end
        self._places = _data_folders(data)
        self._rows, self._contents = {}, {}

    def __enter__(self):
        self._write_json(MACHINE, machine.describe())
        return self

    def __exit__(self, *_):
        """Also of a reproduction that was interrupted: what it wrote until then is described."""
        self._write_json(CONTENTS, list(self._contents.values()))
        lines = [f"ampnet reproduce {self.name}{' --quick' * self.quick} --seeds {len(self.seeds)}", ""]
        lines += [line for label, commands in self._rows.items() for line in (f"# {label}", *commands, "")]
        write_atomically(self.out / COMMANDS, "\n".join(lines).encode())

    # ---- training

    def train(self, spec: Spec, label=None) -> runs.Result:
        """The finished run; trained now unless it was already. label: of the row it is for, in the list of commands."""
        commands = self._rows.setdefault(label or spec.task, [])
        if spec.command not in commands:
            commands.append(spec.command)
        folder = self.runs / spec.directory
        if spec.task not in self._places:
            return self._note(runs.Result(spec, (), f"no data: `ampnet data fetch {spec.task}` downloads them", folder))
        result = runs.finished(spec, folder)
        if result is None:
            self.tell(f"{self.name}: {spec.directory}")
            result = runs.train(spec, folder, self._places[spec.task], self.tell)
        return self._note(result)

    def train_rows(self, rows) -> list[list[runs.Result]]:
        """The runs of each row of a task, one a seed.

        Rows take turns, seed by seed, so that a slow hour of the machine hits all.
        """
        turns = [(i, rows[i].spec(seed)) for turn, seed in enumerate(self.seeds[:sizes.of(rows[0].task, self.quick).seeds])
                 for i in (reversed(range(len(rows))) if turn % 2 else range(len(rows)))]
        if self.jobs > 1:
            self._train_beside([spec for _, spec in turns])
        results = [[] for _ in rows]
        for i, spec in turns:
            results[i].append(self.train(spec, f"{rows[i].task}, {rows[i].label}"))
        return results

    def _train_beside(self, specs):
        """Train those on one core that are not done, `jobs` at a time. Those on several cores stay for later."""
        single = [(spec, self.runs / spec.directory, self._places[spec.task]) for spec in specs if spec.task in self._places
                  and (spec.threads if spec.kind == TORCH else spec.config.settings.workers) == 1]
        beside.train([run for run in single if runs.finished(*run[:2]) is None], self.jobs, self.tell)

    def _note(self, result):
        if result.failed is not None:
            line = f"{result.folder.name}: {result.failed}"
            if line not in self.failed:
                self.failed.append(line)
                self.tell(f"warning: {line}")
        return result

    # ---- writing

    def write_table(self, stem, columns, rows, caption, inline=True):
        """Write STEM.csv and STEM.md; `tables.write` has the cells. inline: the page shows it, else only names the CSV."""
        tables.write(self.out, stem, columns, rows)
        self._list("table", stem, caption, inline)

    def save(self, figure, stem, caption=""):
        """Write a matplotlib figure as STEM.png and STEM.svg."""
        plots.save(figure, self.out, stem)
        self._list("picture", stem, caption, True)

    def _list(self, kind, stem, caption, inline):
        self._contents[kind, stem] = {"kind": kind, "stem": stem, "caption": caption, "inline": inline}

    def _write_json(self, name, value):
        write_atomically(self.out / name, json.dumps(value, indent=1).encode())


def _data_folders(data) -> dict:
    """Task -> the folder to look for its data in, or None for the usual ones; tasks whose data are missing are left out.

    A folder without the files of a task whose data can be generated is no mistake here: it is given for all tasks.
    """
    from ...datasets import catalog
    folders = {}
    for row in catalog.describe(data):
        if row.found != "missing":
            folders[row.task] = data
        elif getattr(catalog.TASKS[row.task], "optional", False):
            folders[row.task] = None
    return folders


def read_settings(folder) -> dict:
    """The settings of a folder with reproductions."""
    path = folder / SETTINGS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"quick": bool(found["quick"]), "seeds": int(found["seeds"])}
    except (OSError, KeyError, TypeError, ValueError):
        raise SettingError(f"{path}: is missing or damaged, so {folder} holds no reproduction to go on with") from None
