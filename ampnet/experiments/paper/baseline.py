"""A PyTorch row of the tables by itself.

    python -m ampnet.experiments.paper.baseline TASK --out DIR [--threads N] [--seed N] [--limit N] [--epochs N] [--target X]
"""

from pathlib import Path

import click

from ...errors import AmpnetError
from .. import TASKS
from . import runs
from .spec import TORCH, Spec


@click.command()
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--out", required=True, metavar="DIR", help="Run directory; an interrupted run there goes on.")
@click.option("--threads", type=int, default=1, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of generated data, initial parameters and order.")
@click.option("--limit", type=int, help="Train on the first N instances.")
@click.option("--epochs", type=int)
@click.option("--target", type=float, help="Stop when the validation metric is this good.")
@click.option("--data", metavar="DIR", help="Folder of the data files.")
def main(task, out, threads, seed, data, **options):
    """Train TASK in PyTorch, in batches, until its target is reached or its epochs are over."""
    spec = Spec(task, {name: value for name, value in options.items() if value is not None}, seed, TORCH, threads)
    try:
        result = runs.train(spec, Path(out), data, click.echo)
    except AmpnetError as error:
        raise click.ClickException(str(error)) from None
    if result.failed is not None:
        raise click.ClickException(result.failed)


if __name__ == "__main__":
    main()
