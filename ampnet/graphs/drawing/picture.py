"""Drawings as SVG and PNG, by matplotlib. Lengths are points (1/72 inch); y runs upwards, so layers have falling y."""

import io
from dataclasses import dataclass

from ...errors import SettingError
from .describe import CONTROL, LEARNS, LOSS, OTHER, SOURCE, colour
from .layout import arrange

SIZE, SMALL = 10, 8                   # of letters
LINE, PADDING = 13, 8                 # height of a line of text; between text and outline
BOX, LAYER = 3 * LINE + 8, 82         # height of a box; from one layer to the next
LANE, GAP, MARGIN = 14, 16, 14
PORTS = 0.6                           # share of a box's width that its edges spread over
DPI = 150
INK, LOOP, PLAIN = "#222222", "#a02020", "#ffffff"
LEGEND = ((SOURCE, "source"), (LEARNS, "has parameters"), (OTHER, "has none"), (CONTROL, "looks at the state"), (LOSS, "loss"))
ROAMING = "white: runs wherever the message is"


def svg_and_png(drawing, form):
    """The bytes of a picture; form: "svg" or "png". SettingError without matplotlib."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError(f"a picture as .{form} needs matplotlib: `pip install matplotlib`; .mmd and .dot do not") from None
    data = io.BytesIO()
    with rc_context({"svg.hashsalt": "ampnet"}):   # the same drawing gives the same bytes
        figure = Figure()
        _draw(figure, drawing)
        figure.savefig(data, format=form, dpi=DPI, metadata={"Date": None} if form == "svg" else None)
    return data.getvalue()


@dataclass
class _Sheet:
    """What boxes and edges are drawn on."""

    axes: object
    height: float

    def middle(self, layer):
        return self.height - MARGIN - 2 * LINE - BOX / 2 - LAYER * layer


def _draw(figure, drawing):
    widths = {box.number: max(_length(box.name, SIZE, True), _length(box.text), _length(box.place)) + 2 * PADDING +
              (12 if box.role in (CONTROL, SOURCE) else 0) for box in drawing.boxes}
    layout = arrange(drawing, widths, LANE, GAP)
    note = ROAMING if drawing.workers and any(box.worker is None for box in drawing.boxes) else ""
    legend = sum(_length(text, SMALL) + 44 for _, text in LEGEND) + _length(note, SMALL)
    width = max(layout.width, legend, _length(drawing.title, SIZE, True)) + 2 * MARGIN
    height = (layout.layers - 1) * LAYER + BOX + 2 * MARGIN + 5 * LINE
    figure.set_size_inches(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    sheet, left = _Sheet(axes, height), (width - layout.width) / 2
    layout.x = {number: x + left for number, x in layout.x.items()}
    layout.lanes = [[(layer, x + left) for layer, x in lanes] for lanes in layout.lanes]
    axes.text(width / 2, height - MARGIN, drawing.title, ha="center", va="top", size=SIZE, weight="bold", parse_math=False)
    for number, points in enumerate(_routes(drawing, layout, widths, sheet)):
        _edge(axes, number, drawing.edges[number], points)
    for box in drawing.boxes:
        _box(axes, box, layout.x[box.number], sheet.middle(layout.layer[box.number]), widths[box.number])
    _legend(axes, (width - legend) / 2, note)


def _length(text, size=SIZE, bold=False):
    """Width of a text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path
    weight = "bold" if bold else "normal"
    return text_to_path.get_text_width_height_descent(text, FontProperties(size=size, weight=weight), False)[0]


def _outline(role, x, y, width, height, **style):
    """The shape of a role, around (x, y)."""
    from matplotlib.patches import FancyBboxPatch, Polygon
    left, low = x - width / 2, y - height / 2
    if role == CONTROL:
        cut = height / 4
        return Polygon([(left, y), (left + cut, low), (left + width - cut, low), (left + width, y),
                        (left + width - cut, low + height), (left + cut, low + height)], **style)
    corners = {SOURCE: height / 2, OTHER: height / 5}.get(role, 0)
    boxstyle = f"round,pad=0,rounding_size={corners}" if corners else "square,pad=0"
    return FancyBboxPatch((left, low), width, height, boxstyle=boxstyle, **style)


def _add_outline(axes, role, x, y, width, height, fill, name=None):
    thick = 2.2 if role == LEARNS else 1.0
    axes.add_patch(_outline(role, x, y, width, height, facecolor=fill, edgecolor=INK, linewidth=thick, gid=name, zorder=2))
    if role == LOSS:
        axes.add_patch(_outline(role, x, y, width - 6, height - 6, facecolor="none", edgecolor=INK, linewidth=1, zorder=3))


def _box(axes, box, x, y, width):
    _add_outline(axes, box.role, x, y, width, BOX, PLAIN if box.worker is None else colour(box.worker), f"node-{box.number}")
    lines = [(box.name, "bold"), (box.text, "normal"), (box.place, "normal")]
    lines = [line for line in lines if line[0]]
    for i, (text, weight) in enumerate(lines):
        axes.text(x, y + ((len(lines) - 1) / 2 - i) * LINE, text, ha="center", va="center_baseline", size=SIZE, weight=weight,
                  color=INK, parse_math=False, zorder=4)


def _routes(drawing, layout, widths, sheet):
    """For each edge its points: the source's lower rim, middles of the lanes, the target's upper rim.

    The edges of a box are spread along its rim in the order of where they go, or come from.
    """
    leaving, coming = {}, {}
    for number, edge in enumerate(drawing.edges):
        lanes = layout.lanes[number]
        leaving.setdefault(edge.source, []).append((lanes[0][1] if lanes else layout.x[edge.target], number))
        coming.setdefault(edge.target, []).append((lanes[-1][1] if lanes else layout.x[edge.source], number))
    starts, ends = {}, {}
    for places, found in ((starts, leaving), (ends, coming)):
        for box, edges in found.items():
            for rank, (_, number) in enumerate(sorted(edges)):
                places[number] = layout.x[box] + ((rank + 0.5) / len(edges) - 0.5) * PORTS * widths[box] * (len(edges) > 1)
    for number, edge in enumerate(drawing.edges):
        lanes = [(x, sheet.middle(layer)) for layer, x in layout.lanes[number]]
        yield [(starts[number], sheet.middle(layout.layer[edge.source]) - BOX / 2), *lanes,
               (ends[number], sheet.middle(layout.layer[edge.target]) + BOX / 2)]


def _edge(axes, number, edge, points):
    """A smooth line: straight beside boxes, bent between layers; one that closes a loop makes a turn at each end."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path
    up = edge.closes_loop
    bend = (LAYER - BOX) * (0.9 if up else 0.55)
    (x, y), codes = points[0], [Path.MOVETO]
    path = [(x, y)]
    for i, (next_x, middle) in enumerate(points[1:], 1):
        last = i == len(points) - 1
        enter = middle if last else middle + (-BOX / 2 if up else BOX / 2)
        path += [(x, y + (bend if up and i > 1 else -bend)), (next_x, enter + (-bend if up and not last else bend)),
                 (next_x, enter)]
        codes += [Path.CURVE4] * 3
        x, y = next_x, enter
        if not last:
            y = middle + (BOX / 2 if up else -BOX / 2)
            path.append((x, y))
            codes.append(Path.LINETO)
    style = {"linestyle": (0, (4, 2)), "color": LOOP} if up else {"color": INK}
    axes.add_patch(FancyArrowPatch(path=Path(path, codes), arrowstyle="-|>,head_length=5,head_width=2.5", linewidth=1.2,
                                   shrinkA=0, shrinkB=0, zorder=1, gid=f"edge-{number}", **style))
    if edge.label:   # where the line stands upright again, on the side it does not come from
        x, y = path[3]
        side = "left" if x >= points[0][0] else "right"
        axes.text(x + (6 if side == "left" else -6), y + 12, edge.label, size=SMALL, color=style["color"], ha=side,
                  va="center_baseline", zorder=4)


def _legend(axes, x, note):
    """The shapes, from x on, and behind them a note."""
    for role, text in LEGEND:
        _add_outline(axes, role, x + 14, MARGIN + LINE / 2, 28, LINE, PLAIN)
        axes.text(x + 34, MARGIN + LINE / 2, text, size=SMALL, va="center_baseline", color=INK)
        x += _length(text, SMALL) + 44
    axes.text(x, MARGIN + LINE / 2, note, size=SMALL, va="center_baseline", color=INK)
