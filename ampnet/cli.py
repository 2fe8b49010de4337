"""The `ampnet` command: options in, one call, lines out. What it calls is imported in the command, so that help is quick."""

import signal
import sys
import traceback

import click

from .errors import AmpnetError, DivergenceError
from .experiments import TASKS, stopping
from .experiments.paper import NAMES as REPRODUCTIONS
from .training.settings import OPTIMIZERS, SCHEDULES

EXIT_ERROR, EXIT_DIVERGED = 1, 3


class Program(click.Group):
    """Turns errors into one line on stderr and the exit code."""

    def invoke(self, ctx):
        try:
            with stopping.raises():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as stop:
            self._end(ctx, "interrupted", stop, stopping.EXIT_CODES[signal.SIGINT])
        except stopping.Terminated as stop:
            self._end(ctx, "terminated", stop, stopping.EXIT_CODES[signal.SIGTERM])
        except DivergenceError as error:
            self._end(ctx, "error", error, EXIT_DIVERGED)
        except (AmpnetError, OSError, MemoryError) as error:
            self._end(ctx, "error", error, EXIT_ERROR)

    def _end(self, ctx, kind, error, code):
        if ctx.params.get("debug"):
            traceback.print_exception(error)
        text = " ".join(str(error).split()) or ("out of memory" if isinstance(error, MemoryError) else "")
        click.echo(f"{kind}: {text}" if text else kind, err=True)
        ctx.exit(code)


def example(text):
    """A command's `--help` ends with this example."""
    return f"\b\nExample:\n  {text}"


def show_version(ctx, _, wanted):
    if wanted:
        import ampnet
        click.echo(f"ampnet {ampnet.__version__}")
        ctx.exit()


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]},
             epilog=example("ampnet train list-reduction --workers 2 --out runs/first"))
@click.option("--debug", is_flag=True, help="Print the traceback of an error.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version,
              help="Print the version.")
def main(debug):
    """Asynchronous model-parallel training of dynamic neural networks on CPUs."""


@main.command(epilog=example("ampnet train mnist --data data --workers 2 --epochs 3 --out runs/mnist"))
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("--epochs", type=int, help="Epochs in all, those of a resumed run included.")
@click.option("--target", type=float, help="Stop when the validation metric is this good.")
@click.option("--limit", type=int, help="Train on the first N instances.")
@click.option("--seed", type=int, help="Of generated data, initial parameters and order.")
@click.option("--workers", type=int, help="Threads that nodes are placed on.")
@click.option("--max-active-keys", type=int, help="Instances in flight; 1 trains synchronously.")
@click.option("--min-update-frequency", type=int, help="Gradients a node gathers before it updates itself.")
@click.option("--max-batch", type=int, metavar="ROWS", help="Rows an operation takes at once.")
@click.option("--no-coalesce", "coalesce", flag_value=False, type=bool, default=None,
              help="One message at a time, as in the paper.")
@click.option("--replicas", type=int, help="Copies of the model that learn side by side and are averaged every epoch.")
@click.option("--hidden", type=int, help="Width of the hidden layers.")
@click.option("--embeddings", metavar="auto|none|FILE", help="Word vectors to start from (sentiment).")
@click.option("--optimizer", type=click.Choice(OPTIMIZERS))
@click.option("--lr", type=float, help="Learning rate.")
@click.option("--lr-schedule", type=click.Choice(SCHEDULES))
@click.option("--clip", type=float, help="Largest norm of a node's gradient; 0: none.")
@click.option("--data", metavar="DIR", help="Folder of the data files.")
@click.option("--config", "file", metavar="FILE", help="TOML file laid over the task's defaults.")
@click.option("--placement", metavar="FILE", help="TOML file of node = worker, or a run's config.toml.")
@click.option("--out", metavar="DIR", help="Run directory; default runs/TASK-<time>.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint in --out.")
@click.option("--checkpoint-every", type=int, metavar="N",
              help="Save a checkpoint every N training instances, not only after an epoch.")
@click.option("--trace", flag_value=True, type=bool, default=None, help="Write trace.json for Chrome or Perfetto.")
@click.option("--record", metavar="FILE", help="Write the order in which the workers do things to a new file.")
@click.option("--replay", metavar="FILE", help="Repeat a recorded run, bit for bit; give the same options again.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def train(task, file, out, resume, quiet, placement, record, replay, **options):
    """Train TASK until its target is reached or its epochs are over."""
    from .experiments import run
    given = {name: value for name, value in options.items() if value is not None}
    config, folder = run.plan(task, given, file, out, resume, placement)
    history, seconds = run.train(config, folder, resume, quiet, click.echo, tell, record, replay)
    if not quiet:
        click.echo(run.summary(config, folder, history, seconds))


@main.command("eval", epilog=example("ampnet eval runs/mnist --split test --json"))
@click.argument("run_dir")
@click.option("--split", type=click.Choice(["valid", "test"]), default="valid", show_default=True)
@click.option("--data", metavar="DIR", help="Folder of the data files; default: as the run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def evaluate(run_dir, split, data, as_json):
    """Evaluate the best parameters of a run."""
    import json

    from .experiments import run
    result = run.evaluate_run(run_dir, split, data, tell)
    if as_json:
        click.echo(json.dumps(result))
        return
    from .training.progress import show, show_further
    name = result["metric_name"]
    click.echo(f"{result['task']} {split}  {name} {show(name, result['metric'])}  {show_further(result)}"
               f"loss {result['loss']:.4g}  "
               f"{result['instances']:,} instances  {result['instances_per_second']:,.0f} instances/s  "
               f"{result['parameters']} (epoch {result['epoch']})")


@main.group(epilog=example("ampnet data list"))
def data():
    """Data files: what there is, download, verify."""


def data_option(command):
    return click.option("--data", "folder", metavar="DIR", help="Folder of the data files; default: $AMPNET_DATA, "
                        "then the user's cache.")(command)


def tasks_argument(command):
    return click.argument("tasks", nargs=-1, type=click.Choice(list(TASKS)), metavar="[TASK]...")(command)


@data.command("list", epilog=example("ampnet data list --data data"))
@tasks_argument
@data_option
def list_data(tasks, folder):
    """Show each task's files, where they were found, and their licence."""
    from .datasets import catalog
    rows = [row for row in catalog.describe(folder) if not tasks or row.task in tasks]
    widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


@data.command("fetch", epilog=example("ampnet data fetch mnist"))
@tasks_argument
@data_option
def fetch_data(tasks, folder):
    """Download what is missing or damaged, checked by checksum; all tasks if none is named."""
    from .datasets import catalog
    for task in tasks or TASKS:
        for line in catalog.fetch(task, folder, progress=False):
            click.echo(line)


@data.command("check", epilog=example("ampnet data check mnist --data data"))
@tasks_argument
@data_option
@click.pass_context
def check_data(ctx, tasks, folder):
    """Parse and verify all data of the tasks; all tasks if none is named."""
    from .datasets import catalog
    wrong = False
    for task in tasks or TASKS:
        try:
            for line in catalog.check(task, folder):
                click.echo(line)
        except AmpnetError as error:
            wrong = True
            click.echo(f"error: {error}", err=True)
    if wrong:
        ctx.exit(EXIT_ERROR)


@main.command(epilog=example("ampnet graph qm9 --workers 2 -o qm9.svg"))
@click.argument("task", type=click.Choice(list(TASKS)))
@click.option("-o", "--out", metavar="FILE", help="Ends in .mmd (Mermaid), .dot (Graphviz), .svg or .png; default: Mermaid, "
              "on stdout.")
@click.option("--workers", type=int, help="Threads that nodes are placed on.")
@click.option("--placement", metavar="FILE", help="TOML file of node = worker, or a run's config.toml; default: the nodes' "
              "floating-point operations are balanced.")
@click.option("--hidden", type=int, help="Width of the hidden layers.")
@click.option("--config", "file", metavar="FILE", help="TOML file laid over the task's defaults, or a run's config.toml.")
@click.option("--data", metavar="DIR", help="Folder of the data files.")
def graph(task, out, placement, file, **options):
    """Draw TASK's graph of nodes, each in the colour of its worker."""
    from .experiments import picture
    given = {name: value for name, value in options.items() if value is not None}
    text = picture.draw(task, given, file, placement, out)
    if text is not None:
        click.echo(text, nl=False)


@main.command(epilog=example("ampnet info"))
def info():
    """Versions, cores, SIMD, BLAS and its threads, and the kernel cache."""
    from .experiments.info import describe
    for name, text in describe().items():
        click.echo(f"{name:<10}{text}")


@main.command(epilog=example("ampnet reproduce all --quick --out reproduction"))
@click.argument("name", type=click.Choice([*REPRODUCTIONS, "all"]))
@click.option("--quick", is_flag=True, help="Less data, lower targets, fewer rows: all of it in under ten minutes.")
@click.option("--out", metavar="DIR", help="Folder of runs, tables and pictures; default runs/reproduction[-quick]. "
              "What is done there is not done again.")
@click.option("--seeds", type=int, metavar="N", help="Runs of each row; default 3, with --quick 1.")
@click.option("--data", metavar="DIR", help="Folder of the data files.")
@click.option("--jobs", type=int, default=1, show_default=True, metavar="N",
              help="Runs on one core to train at a time; those on several cores still have the machine for themselves.")
def reproduce(name, quick, out, seeds, data, jobs):
    """Measure a table or figure of the paper, or all of them."""
    from .experiments.paper import session
    for line in session.reproduce(name, quick, out, seeds, data, tell, jobs):
        click.echo(f"warning: {line}", err=True)


def tell(text):
    """A line about progress that is no result."""
    click.echo(text, err=True)


if __name__ == "__main__":
    sys.exit(main())
