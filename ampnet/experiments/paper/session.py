"""`ampnet reproduce`: one reproduction or all of them, into one folder that goes on where it stopped."""

import json
from pathlib import Path

from ...errors import SettingError
from ...training.checkpoint import write_atomically
from ..folder import check_writable
from ..stopping import Terminated
from . import NAMES, find, page, plots
from .lab import SETTINGS, Lab, read_settings

SEEDS_FULL, SEEDS_QUICK = 3, 1


def reproduce(name, quick, out, seeds, data, tell, jobs=1) -> list[str]:
    """Run the reproduction `name`, or "all".

    out: folder, or None for `runs/reproduction`, with `-quick`; seeds: how many, or None; data: folder of the data files, or
    None; tell: takes lines of progress; jobs: runs on one worker to train at a time. Returns a line for each run that came to
    no end. Raises SettingError, before anything is trained, where matplotlib is missing, a number is too small, or the folder
    holds something else.
    """
    plots.check()
    if seeds is None:
        seeds = SEEDS_QUICK if quick else SEEDS_FULL
    for what, number in (("seeds", seeds), ("jobs", jobs)):
        if number < 1:
            raise SettingError(f"{what} must be a whole number of at least 1, got {number}")
    folder = Path(out) if out is not None else Path("runs") / f"reproduction{'-quick' * quick}"
    _take(folder, {"quick": quick, "seeds": seeds})
    failed = []
    for each in NAMES if name == "all" else (name,):
        module = find(each)
        tell(f"{each}: {module.ABOUT}")
        try:
            with Lab(each, quick, range(seeds), folder, data, tell, jobs) as lab:
                module.reproduce(lab)
        except (KeyboardInterrupt, Terminated) as stop:
            stop.args = (f"what is done is in {folder}; the same command goes on from there",)
            raise
        page.write(folder)
        failed += [line for line in lab.failed if line not in failed]
    return failed


def _take(folder, settings):
    """Make the folder, or go on in one of the same kind, with as many seeds or more."""
    path = folder / SETTINGS
    if path.is_file():
        before = read_settings(folder)
        if before["quick"] == settings["quick"] and before["seeds"] < settings["seeds"]:
            write_atomically(path, json.dumps(settings).encode())
        elif before != settings:
            raise SettingError(f"{folder}: holds results of {_words(before)}, not of {_words(settings)}; give another --out")
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise SettingError(f"{folder}: holds files that are no reproduction; give another --out")
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(settings).encode())


def _words(settings):
    return f"{'quick' if settings['quick'] else 'full'} runs with {settings['seeds']} seed{'s' * (settings['seeds'] > 1)}"
