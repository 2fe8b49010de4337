"""A run's directory: checked before anything slow begins, made when everything is valid, gone again if nothing came of it."""

import tempfile
from datetime import datetime
from pathlib import Path

from ..errors import SettingError

CONFIG, METRICS, CHECKPOINT, BEST = "config.toml", "metrics.jsonl", "checkpoint.safetensors", "best.safetensors"


class RunFolder:
    """Where a run writes. path: None for `runs/TASK-<time>`; resume: it must hold a checkpoint to go on from."""

    def __init__(self, path, task, resume=False):
        if resume and path is None:
            raise SettingError("--resume needs --out, the directory of the run to go on with")
        self.path = Path(path) if path is not None else _unused(task)
        self.made = []  # directories made here, outermost first
        if resume:
            self._check_holds_a_run()
        elif (self.path / METRICS).exists():
            raise SettingError(f"{self.path}: already holds a run; go on with it by --resume, or give another --out")
        check_writable(self.path)

    def _check_holds_a_run(self):
        for name in (CONFIG, CHECKPOINT):
            if not (self.path / name).is_file():
                raise SettingError(f"{self.path}: there is no {name}, so there is no run to resume")

    def make(self):
        missing = [p for p in (self.path, *self.path.parents) if not p.exists()]
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
            self.made.append(path)

    def remove_if_empty(self):
        """Take back what `make` made, unless a checkpoint is there."""
        if (self.path / CHECKPOINT).exists() or self.path not in self.made:
            return
        (self.path / CONFIG).unlink(missing_ok=True)
        for path in reversed(self.made):
            try:
                path.rmdir()
            except OSError:  # somebody else put something there
                return


def check_writable(path):
    """SettingError where a directory cannot be written or made. Tried: permissions do not tell of read-only file systems."""
    place = next(p for p in (path, *path.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        what = "is no directory" if not place.is_dir() else (error.strerror or str(error))
        raise SettingError(f"{path}: cannot be written: {place}: {what}") from None


def _unused(task):
    stem = f"{task}-{datetime.now():%Y%m%d-%H%M%S}"
    names = (stem if i == 1 else f"{stem}-{i}" for i in range(1, 1000))
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())
