"""What table 1 says about asynchronous training, in sentences made from its CSV."""

from .table1 import ASYNCHRONOUS, PYTORCH, SYNCHRONOUS
from .tables import HIGHEST, LOWEST, show

SECONDS, EPOCHS = "seconds to target", "epochs to target"
MOST_EPOCHS = 1.3   # times those of synchronous training
TIME, MORE_EPOCHS, BATCHED = "time", "epochs", "pytorch"   # the claims
REASONS = {         # (task, claim) -> why it fails, shown where it does
    ("mnist", TIME): "An instance is a batch of 100 images, so its products are at full speed with one in flight; "
                     "more in flight can only keep further cores busy.",
}


def sentences(rows) -> list[str]:
    """rows: of table1.csv, as `tables.read` gives them. Three sentences a task, a fourth where there are several cores."""
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        of_task = [row for row in rows if row["task"] == task]
        if len(of_task) == 1:
            found.append(f"**{task}**: not measured: {of_task[0]['note']}.")
            continue
        found += [f"**{task}**, {text}" for text in _of_task(task, of_task)]
    return found


def _of_task(task, rows):
    synchronous = next(row for row in rows if row["training"] == SYNCHRONOUS)
    single = [row for row in rows if row["training"].startswith(ASYNCHRONOUS) and row["workers"] == 1]
    best = _fastest(single)
    yield from _against_synchronous(task, synchronous, best)
    batched = [row for row in rows if row["training"].startswith(PYTORCH)]
    for threads in sorted({row["workers"] for row in batched}):
        ours = _fastest([row for row in rows if row["training"].startswith(ASYNCHRONOUS) and row["workers"] == threads])
        yield _against_pytorch(task, threads, ours, next(row for row in batched if row["workers"] == threads))


def _against_synchronous(task, synchronous, best):
    what = "less time to the target than synchronous training"
    if best is None or synchronous[SECONDS] is None:
        yield f"{what}: cannot be said, as {_missing(best, synchronous, 'synchronous training')}."
        return
    yield _judged(task, TIME, what, best[SECONDS] < synchronous[SECONDS], _seconds_beside(best, synchronous))
    holds = best[EPOCHS] <= MOST_EPOCHS * synchronous[EPOCHS]
    yield _judged(task, MORE_EPOCHS, f"at most {MOST_EPOCHS} times the epochs", holds,
                  f"{show(best[EPOCHS])} against {show(synchronous[EPOCHS])} ({best['training']})")


def _against_pytorch(task, threads, ours, batched):
    what = f"less time to the target than batched PyTorch on {threads} core{'s' * (threads > 1)}"
    if ours is None or batched[SECONDS] is None:
        return f"{what}: cannot be said, as {_missing(ours, batched, 'PyTorch')}."
    return _judged(task, BATCHED, what, ours[SECONDS] < batched[SECONDS], _seconds_beside(ours, batched))


def _fastest(rows):
    return min((row for row in rows if row[SECONDS] is not None), key=lambda row: row[SECONDS], default=None)


def _seconds_beside(ours, other):
    """`32 s against 45 s, 1.4 times as fast (asynchronous, 16 in flight)`, and whether the seeds' ranges overlap."""
    times = other[SECONDS] / ours[SECONDS]
    speed = f"{times:.2f} times as fast" if times >= 1 else f"{1 / times:.2f} times as slow"
    low, high = (_range(row) for row in (ours, other))
    overlap = ", ranges of the seeds overlap" if low[0] < low[1] and low[0] <= high[1] and high[0] <= low[1] else ""
    return f"{show(float(ours[SECONDS]))} s against {show(float(other[SECONDS]))} s, {speed}{overlap} ({ours['training']})"


def _range(row):
    return tuple(row.get(SECONDS + end) or row[SECONDS] for end in (LOWEST, HIGHEST))


def _judged(task, claim, what, holds, numbers):
    reason = "" if holds else REASONS.get((task, claim), "")
    return f"{what}: {'yes' if holds else 'no'}, {numbers}." + (f" {reason}" if reason else "")


def _missing(ours, other, name):
    if ours is None:
        return "no asynchronous row reached the target"
    return f"{name} has no time to the target ({other['note']})"
