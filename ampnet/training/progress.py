"""What a user sees while a run goes on: a bar on a terminal, a line an epoch elsewhere."""

from .trainer import Observer


def show(name, value):
    """A metric for people: accuracies in per cent."""
    return f"{100 * value:.1f} %" if name == "accuracy" else f"{value:.4g}"


def show_further(row):
    """The metrics of a task's own, each followed by two spaces: `root accuracy 49.1 %  error ratio 4.52  `."""
    names = [name for name in row if name.endswith(("_accuracy", "_ratio"))]
    return "".join(f"{name.replace('_', ' ')} {show('accuracy' if name.endswith('accuracy') else name, row[name])}  "
                   for name in names)


def epoch_line(metrics, epochs):
    """`epoch 3/30  train loss 0.412  accuracy 86.1 %  valid 90.3 %  41,200 instances/s  3.1 s`"""
    name = metrics["metric_name"]
    parts = [f"epoch {metrics['epoch']}/{epochs}", f"train loss {metrics['train_loss']:.4g}"]
    if "train_metric" in metrics:
        parts.append(f"{name} {show(name, metrics['train_metric'])}")
    if "valid_metric" in metrics:
        parts.append(f"valid {show(name, metrics['valid_metric'])}")
        parts += filter(None, [show_further(metrics).strip()])
    parts += [f"{metrics['instances_per_second']:,.0f} instances/s", f"{metrics['seconds']:.1f} s"]
    return "  ".join(parts)


class Silent(Observer):
    """Shows nothing. The base of what does: a context manager, so that a terminal is left as it was."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Lines(Silent):
    """One line an epoch, given to `write`."""

    def __init__(self, write):
        self.write, self.epochs = write, 0

    def epoch_started(self, epoch, epochs, instances):
        self.epochs = epochs

    def epoch_ended(self, metrics):
        self.write(epoch_line(metrics, self.epochs))


class Bar(Lines):
    """The same lines, and below them a bar: epoch, instances done, rate, last metric.

    examples_each: what a user counts as instances in one of the graph's, which may be a batch.
    """

    def __init__(self, examples_each=1.0):
        from rich.progress import BarColumn, Progress, TextColumn
        self.examples_each, self.task, self.before = examples_each, None, None
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"), BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"), TextColumn("{task.fields[rate]:,.0f} instances/s"),
            TextColumn("{task.fields[last]}"), transient=True)
        super().__init__(lambda line: self.bar.console.print(line, markup=False, highlight=False))
        self.last = ""

    def __enter__(self):
        self.bar.start()
        return self

    def __exit__(self, *_):
        self.bar.stop()

    def epoch_started(self, epoch, epochs, instances):
        super().epoch_started(epoch, epochs, instances)
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task("", total=instances * self.examples_each, epoch=epoch, epochs=epochs, rate=0.0,
                                      last=self.last)
        self.before = None

    def progress(self, instances_home):
        done = instances_home * self.examples_each
        if self.before is None:
            self.before = done   # by the run that this one resumes: nothing for the rate
        elapsed = self.bar.tasks[0].elapsed or 0
        self.bar.update(self.task, completed=done, rate=(done - self.before) / max(elapsed, 1e-3))

    def epoch_ended(self, metrics):
        super().epoch_ended(metrics)
        name = metrics["metric_name"]
        self.last = f"{name} {show(name, metrics.get('valid_metric', metrics['train_metric']))}"
