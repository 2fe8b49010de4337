"""Figure 1: what a recorded trace must hold under each schedule, and that the chart shows it."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ampnet.experiments.paper import fig1, gantt
from ampnet.experiments.paper.gantt import BACKWARD, FORWARD, UPDATE, Slice

pytest.importorskip("matplotlib")
WORKERS, INSTANCES = 2, 300
TOLERANCE = 0.06
"""Of utilisation by trace and by counters. Outside of slices a worker that is not idle brings messages to their nodes, chooses
and writes the trace, about a microsecond each; and the counters also cover the start and the end of the threads."""


@pytest.fixture(scope="module")
def recordings():
    images = fig1.images(INSTANCES, rows=20, width=256)
    return [fig1.record(schedule, WORKERS, images, width=256) for schedule in fig1.schedules(WORKERS)]


def test_no_worker_does_two_things_at_once(recordings):
    for recording in recordings:
        for worker in range(WORKERS):
            mine = [s for s in recording.slices if s.worker == worker]
            assert mine and all(s.start <= s.end for s in mine)
            assert all(a.end <= b.start for a, b in pairwise(mine))


def test_nodes_stay_on_their_workers_and_backward_follows_forward(recordings):
    for recording in recordings:
        calls = {}
        for s in recording.slices:
            calls.setdefault((s.node, s.kind), {})[s.instance] = s
        assert {len({s.worker for s in each.values()}) for each in calls.values()} == {1}
        learners = [node for node, kind in calls if kind == UPDATE]
        assert len(learners) == WORKERS + 1
        for node in learners:
            forward, backward = calls[node, FORWARD], calls[node, BACKWARD]
            assert len(forward) == len(backward) == INSTANCES
            assert all(forward[i].end <= backward[i].start for i in range(INSTANCES))


def test_updates_happen_when_their_number_is_reached(recordings):
    for recording in recordings:
        gathered, updates, muf = Counter(), Counter(), recording.schedule.min_update_frequency
        for s in recording.slices:
            if s.kind == BACKWARD:
                gathered[s.node] += 1
            elif s.kind == UPDATE:
                assert s.messages == gathered[s.node] == muf
                gathered[s.node] = 0
                updates[s.node] += 1
        assert set(updates.values()) == {INSTANCES // muf}
        assert recording.updates_per_instance == pytest.approx(INSTANCES // muf / INSTANCES)


def test_a_flushed_pipeline_has_one_instance_in_flight_and_no_staleness(recordings):
    flushed, _, amp = recordings
    order = [s.instance for s in flushed.slices]
    assert order == sorted(order) and flushed.staleness == 0
    assert amp.staleness > 0


def test_utilisation_by_trace_is_that_of_the_counters(recordings):
    for recording in recordings:
        seconds = sum(s.end - s.start for s in recording.slices) / 1e9
        assert seconds <= sum(recording.run.busy) * recording.run.seconds + 1e-3   # no slice is idle time
    differences = [abs(recording.traced - recording.counted) for recording in recordings]
    assert sorted(differences)[1] < TOLERANCE   # a machine that takes the core away between slices spoils one


def slices(*spans):
    return [Slice(worker, start, end, kind, 0, 1, 7) for worker, start, end, kind in spans]


def test_utilisation_counts_what_lies_inside():
    found = slices((0, 0, 10, FORWARD), (0, 10, 20, BACKWARD), (1, 5, 10, FORWARD))
    assert gantt.utilisation(found, 2, 0, 20) == 25 / 40
    assert gantt.utilisation(found, 2, 8, 12) == 6 / 8
    assert gantt.utilisation(found, 2, 30, 40) == 0


def test_slices_of_events():
    events = [np.array([[5, 9, 2 * 3 + 1, 4, 0, 6]]), np.array([[1, 2, 0, 1, 8, 5], [3, 4, 3, 1, 8, 5]])]
    assert gantt.slices(events, 3) == [Slice(1, 1, 2, BACKWARD, 0, 1, 5), Slice(1, 3, 4, FORWARD, 0, 1, 5),
                                       Slice(0, 5, 9, UPDATE, 1, 4, 6)]


def test_the_chart_has_a_bar_for_each_slice_in_its_place():
    from matplotlib.figure import Figure
    axes = Figure(figsize=(10, 2)).add_subplot()
    gantt.draw(axes, slices((0, 0, 2_000_000, FORWARD), (1, 3_000_000, 9_000_000, BACKWARD), (1, 9_000_000, 9_500_000, UPDATE),
                            (0, 20_000_000, 21_000_000, FORWARD)), 2, 1_000_000, 11_000_000)
    bars = [path.get_extents() for bar in axes.collections for path in bar.get_paths()]
    np.testing.assert_allclose([(b.x0, b.x1) for b in bars], [(0, 1), (2, 8), (8, 8.5)])
    assert [round((b.y0 + b.y1) / 2) for b in bars] == [0, 1, 1]
    assert [text.get_text() for text in axes.texts] == ["1", "1"]
    assert len(axes.lines) == 1


class Lab:
    """What `reproduce` needs of a lab."""

    def __init__(self, out):
        self.quick, self.out, self.data, self.tables, self.told = True, Path(out), None, {}, []
        self.tell = self.told.append

    def write_table(self, stem, columns, rows, caption, inline=True):
        assert all(len(row) == len(columns) for row in rows) and caption
        self.tables[stem] = rows

    def save(self, figure, stem):
        figure.savefig(self.out / f"{stem}.png")


def test_the_figure(tmp_path, monkeypatch):
    make = fig1.images
    monkeypatch.setattr(fig1, "images", lambda count: make(8, rows=4))
    lab = Lab(tmp_path)
    fig1.reproduce(lab)
    assert (tmp_path / "fig1.png").read_bytes()[:4] == b"\x89PNG"
    rows = lab.tables["fig1"]
    assert [row[0] for row in rows] == [s.name for s in fig1.schedules(1)] and len(lab.told) == 3
    assert all(0 < row[4] <= 1 and 0 < row[5] <= 1 for row in rows)
