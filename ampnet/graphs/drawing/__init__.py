"""Drawings of a graph: one description of its nodes and edges, and a writer for each form.

    describe(graph, placement) -> Drawing -+-> text:    Mermaid, Graphviz
                                           +-> layout -> picture: SVG, PNG
"""

from .describe import Box, Drawing, Edge, describe
from .picture import svg_and_png
from .text import graphviz, mermaid

WRITERS = {
    ".mmd": lambda drawing: mermaid(drawing).encode(),
    ".dot": lambda drawing: graphviz(drawing).encode(),
    ".svg": lambda drawing: svg_and_png(drawing, "svg"),
    ".png": lambda drawing: svg_and_png(drawing, "png"),
}
"""The ending of a file's name -> a function of a `Drawing` that gives the file's bytes."""

__all__ = ["WRITERS", "Box", "Drawing", "Edge", "describe", "graphviz", "mermaid"]
