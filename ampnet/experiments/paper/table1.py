"""Table 1: every task trained synchronously, asynchronously in several ways, and in batches by PyTorch."""

from ..info import usable_cores
from . import sizes
from .lab import Row
from .runs import Result
from .spec import AMPNET, TORCH
from .tables import Spread, show, spread

NAME = "table1"
ABOUT = "Epochs and seconds to each task's target: synchronous, asynchronous, and batched PyTorch."
SYNCHRONOUS, ASYNCHRONOUS, PYTORCH = "synchronous", "asynchronous", "PyTorch"
COLUMNS = ("task", "metric", "target", "training", "max_active_keys", "min_update_frequency", "replicas", "workers",
           "coalescing", "seeds", "epochs to target", "seconds to target", "training instances/s", "validation instances/s",
           "speed-up", "note")
CAPTION = (
    "Median over the seeds, and the range. Seconds to target: of all epochs up to the one that reached it, each with its "
    "training, its evaluation and, with replicas, the averaging; loading, compiling, placing nodes and saving checkpoints are "
    "not in it. Speed-up: seconds to target of the synchronous row over those of the row. Instances/s: the median over epochs; "
    "an MNIST instance is an image. Sentiment's target is half a point below that of `ampnet train`, where its curve is flat. "
    "Workers are threads, of PyTorch too, which trains in batches as ampnet/baselines/recipes.py has them.")


def reproduce(lab):
    rows = []
    for task in sizes.FULL:
        rows += _of_task(lab, task)
        lab.write_table("table1", COLUMNS, rows, CAPTION)   # task by task, as qm9 takes hours


def keys_row(task, quick, keys):
    """The row of single instances (1) or of `keys` instances in flight, on one worker."""
    label = SYNCHRONOUS if keys == 1 else f"{ASYNCHRONOUS}, {keys} in flight"
    return Row(label, task, {**sizes.of(task, quick).options, "max_active_keys": keys})


def replicas_row(task, quick, replicas, workers):
    changes = {"max_active_keys": sizes.REPLICA_KEYS, "replicas": replicas, "workers": workers}
    return Row(f"{ASYNCHRONOUS}, {replicas} replicas", task, {**sizes.of(task, quick).options, **changes})


def rows_of(task, quick) -> list[Row]:
    """The rows of a task, the synchronous one first."""
    size, cores = sizes.of(task, quick), usable_cores()
    rows = [keys_row(task, quick, keys) for keys in (1, *size.keys)]
    some = size.keys[len(size.keys) // 2]
    further = {
        sizes.ALL_CORES: Row(f"{ASYNCHRONOUS}, all cores", task, {**size.options, "max_active_keys": some, "workers": cores}),
        sizes.REPLICAS: replicas_row(task, quick, 2, 2),
        sizes.MESSAGES: Row(f"{ASYNCHRONOUS}, message by message", task,
                            {**size.options, "max_active_keys": some, "coalesce": False}),
        sizes.TORCH: Row(PYTORCH, task, size.options, TORCH),
        sizes.TORCH_ALL_CORES: Row(f"{PYTORCH}, all cores", task, size.options, TORCH, cores)}
    several = cores > 1
    return rows + [row for name, row in further.items() if name in size.rows and (several or "cores" not in name)]


def _of_task(lab, task):
    rows = rows_of(task, lab.quick)
    results = lab.train_rows(rows)
    first = results[0][0]
    if all(result.failed == first.failed for of_row in results for result in of_row) and first.failed:
        return [[task, None, first.target, "all", *[None] * (len(COLUMNS) - 5), first.failed]]
    synchronous = seconds_to_target(results[0])
    return [_cells(row, of_row, synchronous) for row, of_row in zip(rows, results, strict=True)]


def _cells(row, results, synchronous):
    config, seconds = results[0].spec.config, seconds_to_target(results)
    s = config.settings
    own = ((s.max_active_keys, s.min_update_frequency, s.replicas, s.workers, s.coalesce) if row.kind == AMPNET
           else (None, None, None, row.threads, None))
    return [row.task, results[0].metric, config.target, row.label, *own, len(results),
            epochs_to_target(results), seconds,
            spread(result.typical("instances_per_second") for result in results),
            spread(result.typical("valid_instances_per_second") for result in results),
            synchronous.median / seconds.median if synchronous and seconds else None, note(results)]


def _all_reached(results):
    return all(result.reached and not result.failed for result in results)


def epochs_to_target(results) -> Spread | None:
    """Over the seeds; None unless every one reached the target."""
    return spread(result.epochs for result in results) if _all_reached(results) else None


def seconds_to_target(results) -> Spread | None:
    """Over the seeds; None unless every one reached the target."""
    return spread(result.seconds for result in results) if _all_reached(results) else None


def note(results: list[Result]) -> str | None:
    """What there is to say of a row that does not have all its numbers."""
    failures = {result.failed for result in results if result.failed}
    if failures:
        return "; ".join(sorted(failures))
    missed = [result for result in results if not result.reached]
    if missed:
        return (f"target not reached in {missed[0].epochs} epochs by {len(missed)} of {len(results)} seeds, "
                f"best {show(missed[0].best)}")
    return None
