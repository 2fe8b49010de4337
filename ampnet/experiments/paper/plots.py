"""Pictures: matplotlib without a screen, in a style that can be read in grey."""

import io
from importlib.util import find_spec

from ...errors import SettingError
from ...training.checkpoint import write_atomically

LINES = (("-", "o", "#000000"), ("--", "s", "#0072b2"), ("-.", "^", "#d55e00"), (":", "D", "#009e73"),
         ((0, (5, 1, 1, 1, 1, 1)), "v", "#8a8a8a"))
HATCHES = ("", "///", "...", "xxx")
STYLE = {"font.size": 9, "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True, "legend.frameon": False,
         "lines.linewidth": 1.4, "lines.markersize": 4, "hatch.linewidth": 0.6, "svg.hashsalt": "ampnet"}


def check():
    """SettingError where there is no matplotlib: to be called before anything is trained."""
    if find_spec("matplotlib") is None:
        raise SettingError('pictures need matplotlib: pip install "ampnet[plots]"')


def panels(columns, rows=1, width=3.6, height=2.8, **options):
    """A new figure and its axes, a grid of them flattened to a list. width, height: of a panel, in inches."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update(STYLE)
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False,
                                   layout="constrained", **options)
    return figure, list(axes.flat)


def line(number) -> dict:
    """How line `number` of a picture is drawn; every second five have hollow markers."""
    style, marker, colour = LINES[number % len(LINES)]
    fill = colour if number // len(LINES) % 2 == 0 else "white"
    return {"linestyle": style, "marker": marker, "color": colour, "markerfacecolor": fill}


def save(figure, folder, stem):
    """Write STEM.png and STEM.svg, and close the figure."""
    from matplotlib import pyplot
    for kind, options in (("png", {"dpi": 110}), ("svg", {"metadata": {"Date": None}})):
        data = io.BytesIO()
        figure.savefig(data, format=kind, **options)
        write_atomically(folder / f"{stem}.{kind}", data.getvalue())
    pyplot.close(figure)
