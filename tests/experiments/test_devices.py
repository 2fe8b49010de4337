"""The estimate for devices: our counts against closed formulas."""

import numpy as np
import pytest

from ampnet import datasets
from ampnet.errors import DataError
from ampnet.experiments.paper import devices
from ampnet.experiments.paper.devices import Case, count, paper_estimate
from ampnet.graphs import ggnn, mlp, rnn
from tests.graphs.molecules import graph_columns, random_graph

from .test_gantt import Lab

CASE = Case("a case", "qm9", "a molecule")
STEPS, KINDS, ATOMS = 4, 4, 30


@pytest.fixture(scope="module")
def molecules():
    rng = np.random.default_rng(5)
    return graph_columns([random_graph(rng, ATOMS, KINDS, 40) for _ in range(6)], KINDS, tied=True, annotation=5)


def estimate(graph, instances):
    return count(CASE, graph, instances, np.arange(len(instances)))


@pytest.mark.parametrize("form", ["fused", "fine"])
def test_the_paper_s_molecule(molecules, form):
    hidden = devices.PAPER_HIDDEN
    found = estimate(ggnn(5, KINDS, hidden, STEPS, form=form), molecules)
    gru = found.device("gru")
    assert found.bottleneck is gru and gru.rows == STEPS * ATOMS
    assert gru.forward == 12 * hidden**2 * STEPS * ATOMS and gru.flops == 36 * hidden**2 * STEPS * ATOMS == paper_estimate()[0]
    assert found.rate == pytest.approx(paper_estimate()[1]) == pytest.approx(5787, abs=1)
    assert found.gigabits(gru.links[0]) == pytest.approx(4 * paper_estimate()[2])


def test_the_paper_s_arithmetic():
    flops, rate, gigabits = paper_estimate()
    assert flops == 172.8e6 and round(rate, -2) == 5800 and round(gigabits, 1) == 1.1


def test_edge_types_get_a_row_an_atom_or_a_bond(molecules):
    fused, fine = (estimate(ggnn(5, KINDS, 20, STEPS, form=form), molecules) for form in ("fused", "fine"))
    for k in range(1, KINDS + 1):
        for found, column in ((fused, f"sources{k}"), (fine, f"edges{k}")):
            device, rows = found.device(f"edge{k}"), STEPS * molecules[column].rows / len(molecules)
            assert device.rows == pytest.approx(rows)
            assert device.flops == pytest.approx(6 * 20 * 20 * rows)
            assert [(link.forward, link.backward) for link in device.links] == [pytest.approx((80 * rows, 80 * rows))] * 2


def test_what_learns_nothing_gets_no_gradient_back(molecules):
    gate = estimate(ggnn(5, KINDS, 20, STEPS), molecules).device("gate")
    assert [(link.name, link.forward, link.backward) for link in gate.links] == [
        ("h_final - gate", 80 * ATOMS, 80 * ATOMS), ("annotations - gate", 20 * ATOMS, 0),
        ("gate - readout", 80 * ATOMS, 80 * ATOMS)]
    assert gate.forward == 2 * 25 * 20 * ATOMS and gate.backward == 2 * 25 * 20 * ATOMS + 2 * 20 * 20 * ATOMS


def test_an_rnn_by_its_tokens(lists):
    few = lists.train.take(50)
    found, tokens = estimate(rnn(14, 10, 16, 32), few), few["tokens"].rows / 50
    cell = found.device("cell")
    assert cell.rows == pytest.approx(tokens) and cell.flops == pytest.approx(6 * 48 * 32 * tokens)
    assert found.device("classifier").flops == pytest.approx(6 * 32 * 10)
    assert [link.name for link in cell.links] == ["embedding - cell", "loop - cell", "cell - has_next"]


def test_the_sample_is_spread_over_all_instances(lists):
    assert devices.spread(lists.train, 3).tolist() == [0, 149, 299]
    assert len(devices.spread(lists.train, 10_000)) == 300
    batches = datasets.columns.batched({"x": np.zeros((1000, 1))}, 100)
    assert devices.spread(batches, 300).tolist() == [0, 4, 9]


def test_tables_and_picture_of_what_data_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "QUICK_SAMPLE", 10)
    monkeypatch.setattr(datasets.catalog, "locate", missing)
    lab = Lab(tmp_path)
    devices.reproduce(lab)
    assert [row[0] for row in lab.tables["devices"]] == ["list-reduction", "babi15"]
    assert {row[0] for row in lab.tables["devices_nodes"]} == {"list-reduction", "babi15"}
    assert sum("left out: no data" in line for line in lab.told) == 5
    assert (tmp_path / "devices.png").read_bytes()[:4] == b"\x89PNG"


def missing(task, folder):
    raise DataError("no data")


def test_the_caption_compares_with_the_paper(molecules):
    both = [count(case, ggnn(5, KINDS, 200, STEPS, form=case.form), molecules, np.arange(6))
            for case in (devices.PAPER_CASE, devices.FINE_CASE)]
    text = devices.caption(both)
    assert text.count("5,787") == 2 and "1.11" in text and "a row for each bond" in text
    assert "paper" not in devices.caption([estimate(mlp(8, 3, 8, 2), images())])


def images():
    return datasets.columns.batched({"pixels": np.zeros((4, 8)), "label": np.zeros(4, int)}, 2)
