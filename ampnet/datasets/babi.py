"""bAbI task 15, basic deduction, as symbolic graphs: from the files of Li et al., or generated.

A graph has eight nodes: four kinds of animal, each of which fears another kind, and four individuals, one of each kind.
Its four questions ask what an individual fears, which is what its kind fears. In `15_graphs.txt`::

    1 1 2        an edge: node 1 is (type 1) a node 2
    2 2 5        node 2 has fear (type 2) of node 5
    ? 1 1 5      a question of type 1 about node 1, whose answer is node 5
                 an empty line ends the graph

Nodes count from 1 in the files, and from 0 here. The numbers of the edge types differ from fold to fold.

Source: J. Weston et al., "Towards AI-Complete Question Answering" (2015), in the symbolic form of Y. Li et al., "Gated
Graph Sequence Neural Networks" (2016): ten folds of 1,000 training and 1,000 test graphs, each of four questions.
"""

from __future__ import annotations

import gzip
import io
import operator
import re
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ampnet.datasets import files
from ampnet.datasets.columns import Column, Dataset, Instances, positive
from ampnet.datasets.edges import fine_columns, fused_columns
from ampnet.errors import DataError, SettingError

LICENCE = "CC BY 3.0"
ARCHIVE = "ggnn_symbolic_folds1-10.tar.gz"
FOLDS = 10
IS, HAS_FEAR = 0, 1
EDGE_TYPES = {"is": IS, "has_fear": HAS_FEAR}
DIRECTED_EDGE_TYPES = 2 * len(EDGE_TYPES)
VALID_GRAPHS = 250
TEST_QUESTIONS = 1000
KINDS = 4


class Graph(NamedTuple):
    """nodes: their number; edges: (source, target, type); questions: (node asked about, node that answers)."""

    nodes: int
    edges: list[tuple[int, int, int]]
    questions: list[tuple[int, int]]


def load(
    folder: str | Path | None = None, fold: int = 1, graphs: int = 250, nodes: int = 54, fine: bool = False, seed: int = 0
) -> Dataset:
    """Questions of a fold, or of generated graphs.

    Parameters
    ----------
    folder : that of the archive, or of its unpacked `symbolic/`; packed goes first. None generates graphs.
    fold : 1..10; generated graphs do not depend on it.
    graphs : number of training graphs, each of four questions.
    nodes : that each graph is inflated to with isolated nodes; 54 as in the AMPNet paper.
    fine : add the columns of `edges.fine_columns`.
    seed : of generated graphs; files do not depend on it.

    Returns
    -------
    Dataset of a question an instance: of the first `graphs` training graphs of the fold (train), of the next 250 (valid),
    and the first 1,000 of its test graphs (test); or of `graphs`, 250 and 250 generated graphs, three draws of which none
    depends on another's size. Its columns:

    - `annotation` (nodes, 1): 1 at the node asked about, 0 elsewhere.
    - `answer` (one row, 1): number of the node that answers, from 0.
    - those of `edges.fused_columns`, of types 1 is, 2 has fear, and 3, 4 the same backward.

    meta: annotation 1, edge_types 4, nodes, and source, "fold K" or "generated".

    Raises
    ------
    SettingError : fold, graphs, nodes or seed is out of range, or the fold has no graph left for `valid`.
    DataError : a file is missing or damaged, or a graph has more than `nodes` nodes.
    """
    graphs, nodes = positive("number of training graphs", graphs), positive("nodes", nodes)
    if positive("fold", fold) > FOLDS:
        raise SettingError(f"fold must be in 1..{FOLDS}, not {fold}")
    if folder is None:
        parts, source = _generated(graphs, seed), "generated"
    else:
        parts, source = _from_fold(folder, fold, graphs), f"fold {fold}"
    train, valid, test = (_instances(part, nodes, fine) for part in parts)
    meta = {"annotation": 1, "edge_types": DIRECTED_EDGE_TYPES, "nodes": nodes, "source": source}
    return Dataset("babi15", train, valid, test.take(TEST_QUESTIONS), meta=meta)


def find(folder: str | Path) -> Path:
    """The archive in the folder, or else the unpacked `symbolic/`; a `DataError` if it has neither."""
    for path in (Path(folder) / ARCHIVE, Path(folder) / "symbolic"):
        if path.exists():
            return path
    raise DataError(f"{Path(folder) / ARCHIVE}: no such file, and no symbolic/ beside it")


def check(folder: str | Path | None = None) -> list[str]:
    """Parse all ten folds, or generate graphs if folder is None, and compare each answer with `deduce`.

    Returns lines to print.

    Raises
    ------
    DataError : a file is missing or damaged, or an answer differs.
    """
    if folder is None:
        return [f"babi15: {_check_answers(generate(1000, np.random.default_rng(0)), 'generated')}; all answers follow"]
    lines = []
    for fold in range(1, FOLDS + 1):
        counts = [
            _check_answers(read_fold(folder, fold, part), part, f"{folder}, fold {fold}, ") for part in ("train", "test")
        ]
        lines.append(f"babi15: fold {fold}: {', '.join(counts)}; all answers follow")
    return lines


def deduce(graph: Graph, asked: int) -> int:
    """The definition of the answer: what the kind of the individual `asked` fears.

    Raises
    ------
    DataError : it does not have just one kind, or that kind not just one fear.
    """
    node = asked
    for relation, of_type in EDGE_TYPES.items():
        targets = [t for s, t, k in graph.edges if (s, k) == (node, of_type)]
        if len(targets) != 1:
            raise DataError(f"expected one edge {relation!r} from node {node + 1}, found {len(targets)}")
        node = targets[0]
    return node


def generate(count: int, rng: np.random.Generator) -> list[Graph]:
    """Graphs distributed as the real ones: each kind fears any other with equal chance.

    Nodes are numbered, and edges and questions ordered, at random. In the files individuals and kinds have the same
    numbers throughout a fold.
    """
    return [_generate_graph(rng) for _ in range(count)]


def read_fold(folder: str | Path, fold: int, part: str) -> list[Graph]:
    """The graphs of "train" or "test" of a fold, from the archive or else its unpacked files; errors as `read`."""
    name = f"symbolic/fold{fold}/{part}/15_%s.txt"
    (types, types_path), (graphs, graphs_path) = _texts(Path(folder), [name % "edge_types", name % "graphs"])
    return read(graphs, graphs_path, read_edge_types(types, types_path))


def read_edge_types(text: str, path: str | Path) -> dict[int, int]:
    """Parse lines such as `is=1`: number in the file -> `IS` or `HAS_FEAR`. `path` is for errors.

    Raises
    ------
    DataError : a line is something else, or a type is missing or there twice.
    """
    types = {}
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        name, _, number = content.strip().partition("=")
        if name not in EDGE_TYPES or not re.fullmatch(r"\d{1,9}", number):
            raise DataError(f"{path}, line {line}: expected 'is=NUMBER' or 'has_fear=NUMBER', found {content!r}")
        if int(number) in types or EDGE_TYPES[name] in types.values():
            raise DataError(f"{path}, line {line}: expected each name and number once, found {content!r} again")
        types[int(number)] = EDGE_TYPES[name]
    if len(types) < len(EDGE_TYPES):
        raise DataError(f"{path}: expected the numbers of {' and '.join(EDGE_TYPES)}, found {len(types)} of them")
    return types


def read(text: str, path: str | Path, types: dict[int, int]) -> list[Graph]:
    """Parse the content of `15_graphs.txt`.

    Parameters
    ----------
    path : for errors.
    types : number of an edge type in the text -> `IS` or `HAS_FEAR`, as `read_edge_types` gives.

    Raises
    ------
    DataError : one line with the file, the line in it, and what was expected of it.
    """
    graphs = []
    edges, questions, nodes = [], [], 0
    lines = text.split("\n")
    for line, content in enumerate([*lines, ""], 1):  # the last graph may lack its empty line
        where = f"{path}, line {line}"
        fields = content.split()
        if not fields:
            if edges and not questions:
                raise DataError(f"{where}: expected a question about the graph, found its end")
            if edges:
                graphs.append(Graph(nodes, edges, questions))
            edges, questions, nodes = [], [], 0
        elif fields[0] == "?":
            _, asked, answer = _numbers(where, content, fields[1:], "'? type node answer'")
            if not edges:
                raise DataError(f"{where}: expected edges of a graph before its questions, found {content!r}")
            questions.append(tuple(_node(where, content, node, nodes) for node in (asked, answer)))
        else:
            source, kind, target = _numbers(where, content, fields, "'node type node'")
            if kind not in types:
                raise DataError(f"{where}: expected an edge type out of {sorted(types)}, found {kind} in {content!r}")
            edges.append((_node(where, content, source), _node(where, content, target), types[kind]))
            nodes = max(nodes, source, target)
    if not graphs:
        raise DataError(f"{path}: expected at least one graph, found none")
    return graphs


def _numbers(where: str, content: str, fields: list[str], form: str) -> list[int]:
    if len(fields) != 3:
        raise DataError(f"{where}: expected {form}, found {content!r}")
    for field in fields:
        if not re.fullmatch(r"-?\d{1,9}", field):
            raise DataError(f"{where}: expected {form} in whole numbers, found {field!r} in {content!r}")
    return [int(field) for field in fields]


def _node(where: str, content: str, number: int, nodes: int | None = None) -> int:
    """Node from 0; of a graph with `nodes` nodes, if given."""
    if number < 1 or (nodes is not None and number > nodes):
        expected = "1 or more" if nodes is None else f"1 to {nodes}"
        raise DataError(f"{where}: expected nodes of {expected}, found {number} in {content!r}")
    return number - 1


def _texts(folder: Path, members: list[str]) -> list[tuple[str, str]]:
    """(content, path for messages) of each member."""
    archive = folder / ARCHIVE
    texts = []
    for member, raw in zip(members, _packed(archive, members) if archive.exists() else _unpacked(folder, members), strict=True):
        path = f"{archive}: {member}" if archive.exists() else str(folder / member)
        try:
            texts.append((raw.decode("ascii"), path))
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: expected ASCII text ({error})") from None
    return texts


def _packed(archive: Path, members: list[str]) -> list[bytes]:
    try:
        content = gzip.decompress(archive.read_bytes())  # all of it, so that its checksum is compared
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            opened = [tar.extractfile(member) for member in members]
            if None in opened:
                raise DataError(f"{archive}: expected a file {members[opened.index(None)]}, found none of that kind")
            return [file.read() for file in opened]
    except DataError:
        raise
    except KeyError as error:
        raise DataError(f"{archive}: expected a file of the archive ({error.args[0]})") from None
    except Exception as error:  # tarfile passes on whatever a damaged header leads to
        raise DataError(f"{archive}: expected a tar.gz archive, found it unreadable ({files.one_line(error)})") from None


def _unpacked(folder: Path, members: list[str]) -> list[bytes]:
    raw = []
    for member in members:
        if not (folder / member).exists():
            raise DataError(f"{folder / member}: no such file, and no {ARCHIVE} beside symbolic/")
        raw.append(files.read(folder / member))
    return raw


def _from_fold(folder: str | Path, fold: int, graphs: int) -> tuple[list[Graph], list[Graph], list[Graph]]:
    training = read_fold(folder, fold, "train")
    if graphs >= len(training):
        raise SettingError(f"graphs must be below the {len(training)} of the fold, to leave some for valid, not {graphs}")
    return training[:graphs], training[graphs : graphs + VALID_GRAPHS], read_fold(folder, fold, "test")


def _generated(graphs: int, seed: int) -> list[list[Graph]]:
    try:
        seeds = np.random.SeedSequence(operator.index(seed)).spawn(3)
    except (TypeError, ValueError):
        raise SettingError(f"seed must be a whole number of 0 or more, not {seed!r}") from None
    counts = (graphs, VALID_GRAPHS, TEST_QUESTIONS // KINDS)
    return [generate(count, np.random.default_rng(own)) for count, own in zip(counts, seeds, strict=True)]


def _generate_graph(rng: np.random.Generator) -> Graph:
    kinds, individuals = rng.permutation(2 * KINDS).reshape(2, KINDS).tolist()
    feared = [kinds[(i + step) % KINDS] for i, step in enumerate(rng.integers(1, KINDS, KINDS))]
    edges = [(one, kind, IS) for one, kind in zip(individuals, kinds, strict=True)]
    edges += [(kind, other, HAS_FEAR) for kind, other in zip(kinds, feared, strict=True)]
    questions = list(zip(individuals, feared, strict=True))
    in_order = [edges[i] for i in rng.permutation(len(edges))]
    return Graph(2 * KINDS, in_order, [questions[i] for i in rng.permutation(KINDS)])


def _check_answers(graphs: list[Graph], kind: str, where: str = "") -> str:
    """Compare all answers with `deduce`; returns how many there are."""
    for i, graph in enumerate(graphs):
        for asked, answer in graph.questions:
            try:
                expected = deduce(graph, asked)
            except DataError as error:
                raise DataError(f"{where}{kind} graph {i}: {error}") from None
            if answer != expected:
                raise DataError(f"{where}{kind} graph {i}: answer {answer + 1} about node {asked + 1} must be {expected + 1}")
    return f"{len(graphs):,} {kind} graphs of {sum(len(graph.questions) for graph in graphs):,} questions"


def _instances(graphs: list[Graph], nodes: int, fine: bool) -> Instances:
    for i, graph in enumerate(graphs):
        if graph.nodes > nodes:
            raise DataError(f"babi15, graph {i}: expected at most {nodes} nodes, found {graph.nodes}")
    asked, answer = np.array([question for graph in graphs for question in graph.questions]).T
    node_offsets = np.arange(len(asked) + 1) * nodes
    annotation = np.zeros((len(asked), nodes), np.float32)
    annotation[np.arange(len(asked)), asked] = 1
    per_question = [graph.edges for graph in graphs for _ in graph.questions]
    edge_offsets = np.append(0, np.cumsum([len(edges) for edges in per_question]))
    source, target, kind = np.array([edge for edges in per_question for edge in edges]).T
    given = (node_offsets, edge_offsets, source, target, kind, len(EDGE_TYPES), False)
    return Instances(
        {
            "annotation": Column(annotation.reshape(-1), node_offsets, "annotation"),
            "answer": Column(answer, name="answer"),
            **fused_columns(*given),
            **(fine_columns(*given) if fine else {}),
        }
    )
