"""Tables, verdicts and the page, from made-up numbers."""

import json

import pytest
from click.testing import CliRunner

from ampnet.experiments.paper import page, tables, verdicts
from ampnet.experiments.paper.lab import SETTINGS
from ampnet.experiments.paper.table1 import COLUMNS
from ampnet.experiments.paper.tables import Spread

SECONDS, EPOCHS = "seconds to target", "epochs to target"


def row(task, training, seconds, epochs=4, workers=1, **more):
    values = {"task": task, "training": training, SECONDS: seconds, EPOCHS: epochs, "workers": workers, **more}
    return [values.get(name) for name in COLUMNS]


def verdict(tmp_path, *rows, name="table1", columns=COLUMNS):
    tables.write(tmp_path, name, columns, rows)
    return verdicts.sentences(name, tmp_path)


def test_numbers_and_ranges_come_back_from_the_csv_and_read_well(tmp_path):
    rows = [["a|b", Spread(1.5, 1.25, 2.0), True, 1600, None], ["c", None, False, 2.5, "why"]]
    tables.write(tmp_path, "t", ["name", "seconds", "yes", "number", "note"], rows)
    names = ["name", "seconds", "seconds, lowest", "seconds, highest", "yes", "number", "note"]
    found = tables.read(tmp_path / "t.csv")
    assert [list(each) for each in found] == [names, names]
    assert [list(each.values()) for each in found] == [["a|b", 1.5, 1.25, 2, "yes", 1600, None],
                                                       ["c", None, None, None, "no", 2.5, "why"]]
    assert (tmp_path / "t.md").read_text().splitlines() == [
        "| name | seconds | yes | number | note |", "| --- | --- | --- | --- | --- |",
        "| a\\|b | 1.5 (1.25 to 2) | yes | 1,600 |  |", "| c |  | no | 2.5 | why |"]


@pytest.mark.parametrize("number, text", [(0.12345, "0.123"), (99.96, "100"), (123456.7, "123,457"), (3, "3"),
                                          (Spread(2.0, 2.0, 2.0), "2"), (None, "")])
def test_three_figures(number, text):
    assert tables.show(number) == text


def test_every_claim_that_holds(tmp_path):
    found = verdict(tmp_path, row("qm9", "synchronous", 100.0), row("qm9", "asynchronous, 4 in flight", 80.0, 4),
                    row("qm9", "asynchronous, 8 in flight", 50.0, 5), row("qm9", "asynchronous, all cores", 30.0, 5, 2),
                    row("qm9", "PyTorch", 75.0), row("qm9", "PyTorch, all cores", 40.0, workers=2))
    assert [line.partition(": ")[2] for line in found] == [
        "yes, 50 s against 100 s, 2.00 times as fast (asynchronous, 8 in flight).",
        "yes, 5 against 4 (asynchronous, 8 in flight).",
        "yes, 50 s against 75 s, 1.50 times as fast (asynchronous, 8 in flight).",
        "yes, 30 s against 40 s, 1.33 times as fast (asynchronous, all cores)."]


def test_claims_that_fail_say_so_and_why_where_it_is_known(tmp_path, monkeypatch):
    monkeypatch.setitem(verdicts.REASONS, ("sentiment", "pytorch"), "Because.")
    found = verdict(tmp_path, row("sentiment", "synchronous", Spread(100.0, 90.0, 110.0)),
                    row("sentiment", "asynchronous, 4 in flight", Spread(105.0, 100.0, 120.0), 6),
                    row("sentiment", "PyTorch", 50.0))
    assert [line.partition(": ")[2] for line in found] == [
        "no, 105 s against 100 s, 1.05 times as slow, ranges of the seeds overlap (asynchronous, 4 in flight).",
        "no, 6 against 4 (asynchronous, 4 in flight).",
        "no, 105 s against 50 s, 2.10 times as slow (asynchronous, 4 in flight). Because."]


def test_what_was_not_reached_or_not_measured_is_no_verdict(tmp_path):
    found = verdict(tmp_path, row("mnist", "all", None, None, None, note="no data"),
                    row("qm9", "synchronous", None, None, note="target not reached"),
                    row("qm9", "asynchronous, 4 in flight", 80.0), row("qm9", "PyTorch", None, None, note="not installed"),
                    row("babi15", "synchronous", 1.0), row("babi15", "asynchronous, 4 in flight", None, None))
    assert found[0] == "**mnist**: not measured: no data."
    assert all("cannot be said" in line for line in found[1:]) and len(found) == 4
    assert "target not reached" in found[1] and "not installed" in found[2] and "no asynchronous row" in found[3]


def test_why_nothing_reached_the_target_is_said_where_it_is_known(tmp_path, monkeypatch):
    monkeypatch.setitem(verdicts.REASONS, ("sentiment", "unreached"), "Because.")
    rows = [row("sentiment", "synchronous", 100.0), row("sentiment", "asynchronous, 4 in flight", 90.0),
            row("sentiment", "asynchronous, 2 replicas", None, None, 2), row("sentiment", "PyTorch", 95.0),
            row("sentiment", "PyTorch, all cores", 60.0, workers=2)]
    assert verdict(tmp_path, *rows)[-1].endswith("cannot be said, as no asynchronous row reached the target. Because.")
    monkeypatch.delitem(verdicts.REASONS, ("sentiment", "unreached"))
    assert verdict(tmp_path, *rows)[-1].endswith("cannot be said, as no asynchronous row reached the target.")


def test_what_the_other_reproductions_say(tmp_path):
    busy, updates = "utilisation, counters", "updates per instance and layer"
    line, = verdict(tmp_path, ["flushed", 0.48, 1.0], ["filled", 0.8, 0.03], ["AMP", 0.84, 1.0], name="fig1",
                    columns=["schedule", busy, updates])
    assert line.endswith(": yes, busy 84% of the time against 48%, 1 updates an instance and layer against 1.")
    columns = ["max_active_keys", "min_update_frequency", SECONDS, EPOCHS]
    line, = verdict(tmp_path, [2, 25, 60.0, 9], [2, 100, 25.0, 6], [8, 25, None, None], [8, 100, 16.0, 6], [32, 25, None, None],
                    name="sweep", columns=columns)
    assert line.endswith(": yes, 25 s and 6 epochs with 2 in flight and an update for 100 gradients; "
                         "16 s and 6 epochs with 8 in flight and an update for 100 gradients.")
    assert not verdict(tmp_path, [2, 25, 60.0, 9], [8, 25, None, None], name="sweep", columns=columns)
    columns = ["replicas", "workers", "training instances/s", SECONDS, EPOCHS]
    lines = verdict(tmp_path, [1, 1, 100.0, 30.0, 6], [2, 2, 180.0, 20.0, 7], [4, 2, 90.0, None, None], name="replicas",
                    columns=columns)
    assert [line.partition(": ")[2] for line in lines] == [
        "yes, 1.80 times the instances/s.", "yes, 20 s against 30 s, 1.50 times as fast, 7 epochs against 6."]
    assert not verdicts.sentences("devices", tmp_path)


@pytest.fixture
def folder(lab, tiny, tmp_path):
    """Of a quick reproduction called table1, with a run, a table and two pictures."""
    lab.name, lab.out = "table1", tmp_path / "table1"
    lab.out.mkdir()
    lab.train(tiny(), "list-reduction, a row")
    lab.write_table("table1", COLUMNS, [row("qm9", "synchronous", 10.0), row("qm9", "asynchronous, 4 in flight", 5.0)], "Text.")
    lab.write_table("long", ["number"], [[i] for i in range(99)], "All of them.", inline=False)
    from ampnet.experiments.paper import plots
    figure, (axes,) = plots.panels(1)
    axes.plot([1, 2], **plots.line(1))
    lab.save(figure, "picture", "What is seen.")
    lab._write_json("machine.json", json.loads((tmp_path / "a" / "machine.json").read_text()))
    lab.quick, lab.seeds = True, [0]
    lab.__exit__()
    (tmp_path / SETTINGS).write_text('{"quick": true, "seeds": 1}')
    return tmp_path


def test_the_page_shows_tables_pictures_machine_verdicts_and_runs(folder, tiny):
    page.write(folder)
    text = (folder / "README.md").read_text()
    for part in ("quick runs", "`ampnet reproduce all --quick --seeds 1`", "numba", "2.00 times as fast", "| qm9 |",
                 "**mnist**: table1 has no rows",
                 "![table1: picture](table1/picture.png)", "What is seen.", "[long.csv](table1/long.csv): All of them."):
        assert part in text, part
    assert "| 98 |" not in text
    run, = tables.read(folder / "runs.csv")
    assert run["directory"] == tiny().directory and run["epochs"] == 2 and len(run["seconds of each epoch"].split()) == 2
    assert "limit=40" in run["options"]
    assert (folder / "table1" / "picture.svg").exists()


def test_the_page_names_every_command_where_options_differed(folder):
    devices = folder / "devices"
    devices.mkdir()
    (devices / "contents.json").write_text("[]")
    (devices / "machine.json").write_text((folder / "table1" / "machine.json").read_text())
    (devices / "commands.txt").write_text("ampnet reproduce devices --quick --seeds 3\n")
    page.write(folder)
    named = "measured by `ampnet reproduce table1 --quick --seeds 1`, `ampnet reproduce devices --quick --seeds 3`, and"
    assert named in (folder / "README.md").read_text()


def test_the_page_is_copied_into_the_documentation(folder, tmp_path):
    docs = tmp_path / "docs"
    (docs / "reproduction" / "old").mkdir(parents=True)
    result = CliRunner().invoke(page.main, [str(folder), str(docs)])
    assert result.exit_code == 0, result.output
    text = (docs / "reproduction.md").read_text()
    links = [part.partition(")")[0] for part in text.split("](")[1:]]
    assert "reproduction/table1/picture.png" in links and all((docs / link).is_file() for link in links)
    assert not (docs / "reproduction" / "old").exists() and not list(docs.rglob("*.svg")) and str(tmp_path) not in text


def test_a_folder_of_something_else_has_no_page(tmp_path):
    result = CliRunner().invoke(page.main, [str(tmp_path)])
    assert result.exit_code == 1 and "holds no reproduction" in result.output and not list(tmp_path.iterdir())
