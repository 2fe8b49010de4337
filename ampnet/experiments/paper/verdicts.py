"""What the results say about the paper's claims, in sentences made from their CSVs."""

from . import fig1, replicas, sweep, table1
from .table1 import ASYNCHRONOUS, PYTORCH, SYNCHRONOUS
from .tables import HIGHEST, LOWEST, read, show

SECONDS, EPOCHS, RATE = "seconds to target", "epochs to target", "training instances/s"
MOST_EPOCHS = 1.3   # times those of synchronous training
TIME, MORE_EPOCHS, BATCHED = "time", "epochs", "pytorch"   # the claims
UNREACHED = "unreached"   # in place of a claim that cannot be judged
REASONS = {         # (task, claim) -> why it fails, shown where it does
    ("mnist", TIME): "An instance is a batch of 100 images, so its products are at full speed with one in flight; "
                     "more in flight can only keep further cores busy.",
    ("mnist", BATCHED): "Its products of 100 rows run near the machine's peak in PyTorch too.",
    ("qm9", UNREACHED): "On several cores only replicas are tried, which are averaged once an epoch and learn less in one.",
    ("qm9", TIME): "The 18 atoms of a molecule share every product with one in flight too, which is enough for nearly full "
                   "speed; more in flight can only keep further cores busy.",
}


def sentences(name, folder) -> list[str]:
    """Of the reproduction `name`, whose CSVs are in `folder`; none where the paper claims nothing about what it measures."""
    return FINDERS[name](read(folder / f"{name}.csv")) if name in FINDERS else []


def _of_table1(rows):
    """Three sentences a task, a fourth where there are several cores; asynchronous training by its fastest row."""
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
    yield _judged(task, TIME, what, best[SECONDS] < synchronous[SECONDS],
                  f"{_seconds_beside(best, synchronous)} ({best['training']})")
    holds = best[EPOCHS] <= MOST_EPOCHS * synchronous[EPOCHS]
    yield _judged(task, MORE_EPOCHS, f"at most {MOST_EPOCHS} times the epochs", holds,
                  f"{show(best[EPOCHS])} against {show(synchronous[EPOCHS])} ({best['training']})")


def _against_pytorch(task, threads, ours, batched):
    what = f"less time to the target than batched PyTorch on {threads} core{'s' * (threads > 1)}"
    if ours is None or batched[SECONDS] is None:
        text = f"{what}: cannot be said, as {_missing(ours, batched, 'PyTorch')}."
        return text if ours is not None else _with_reason(text, task, UNREACHED)
    return _judged(task, BATCHED, what, ours[SECONDS] < batched[SECONDS],
                   f"{_seconds_beside(ours, batched)} ({ours['training']})")


def _fastest(rows):
    return min((row for row in rows if row[SECONDS] is not None), key=lambda row: row[SECONDS], default=None)


def _seconds_beside(ours, other):
    """`32 s against 45 s, 1.4 times as fast`, and whether the seeds' ranges overlap."""
    times = other[SECONDS] / ours[SECONDS]
    speed = f"{times:.2f} times as fast" if times >= 1 else f"{1 / times:.2f} times as slow"
    low, high = (_range(row) for row in (ours, other))
    overlap = ", ranges of the seeds overlap" if low[0] < low[1] and low[0] <= high[1] and high[0] <= low[1] else ""
    return f"{show(float(ours[SECONDS]))} s against {show(float(other[SECONDS]))} s, {speed}{overlap}"


def _range(row):
    return tuple(row.get(SECONDS + end) or row[SECONDS] for end in (LOWEST, HIGHEST))


def _judged(task, claim, what, holds, numbers):
    text = _put(what, holds, numbers)
    return text if holds else _with_reason(text, task, claim)


def _with_reason(text, task, claim):
    return " ".join([text, *filter(None, [REASONS.get((task, claim))])])


def _put(what, holds, numbers):
    return f"{what}: {'yes' if holds else 'no'}, {numbers}."


def _missing(ours, other, name):
    if ours is None:
        return "no asynchronous row reached the target"
    return f"{name} has no time to the target ({other['note']})"


# ---- the other reproductions


def _of_fig1(rows):
    flushed, _, amp = rows
    busy, updates = "utilisation, counters", "updates per instance and layer"
    return [_put("**fig1**, several instances in flight keep workers busier than a flushed pipeline does, with as many updates",
                 amp[busy] > flushed[busy] and amp[updates] >= 0.9 * flushed[updates],
                 f"busy {amp[busy]:.0%} of the time against {flushed[busy]:.0%}, {show(float(amp[updates]))} updates an "
                 f"instance and layer against {show(float(flushed[updates]))}")]


def _of_sweep(rows):
    """By the best cell of each number in flight."""
    keys = "max_active_keys"
    best = [_fastest([row for row in rows if row[keys] == number]) for number in sorted({row[keys] for row in rows})]
    best = [row for row in best if row is not None]
    if len(best) < 2:
        return []
    numbers = "; ".join(f"{show(float(row[SECONDS]))} s and {show(row[EPOCHS])} epochs with {row[keys]} in flight and an "
                        f"update for {row['min_update_frequency']} gradients" for row in best)
    return [_put("**sweep**, more instances in flight reach the target sooner, up to a point", _fastest(best) is not best[0],
                 numbers)]


def _of_replicas(rows):
    """Only those that have a core each."""
    single, found = rows[0], []
    for row in rows[1:]:
        count = row["replicas"]
        if row["workers"] != count:
            continue
        times = row[RATE] / single[RATE]
        found.append(_put(f"**replicas**, {count} on as many cores train nearly {count} times as fast as one",
                          times >= 0.85 * count, f"{times:.2f} times the instances/s"))
        if None not in (row[SECONDS], single[SECONDS]):
            found.append(_put(f"**replicas**, {count} reach the target sooner than one", row[SECONDS] < single[SECONDS],
                              f"{_seconds_beside(row, single)}, {show(row[EPOCHS])} epochs against {show(single[EPOCHS])}"))
    return found


FINDERS = {table1.NAME: _of_table1, fig1.NAME: _of_fig1, sweep.NAME: _of_sweep, replicas.NAME: _of_replicas}
