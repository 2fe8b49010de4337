"""`ampnet graph`: what it writes, where it takes workers from, and what is an error."""

import xml.etree.ElementTree as ElementTree

import pytest

from ampnet.training.config import tomllib

from .test_cli import ampnet, check_one_line

TRAINED = ("train", "list-reduction", "--hidden", "16", "--limit", "200", "--epochs", "1", "--workers", "3")


def test_mermaid_on_stdout_without_any_data(tmp_path):
    result = ampnet("graph", "list-reduction", "--hidden", 24, env={"AMPNET_DATA": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("flowchart TB\n") and "Linear 24x10" in result.stdout and "worker 0" in result.stdout


@pytest.mark.parametrize("ending", [".mmd", ".dot", ".svg", ".png", ".PNG"])
def test_each_ending(tmp_path, ending):
    path = tmp_path / f"graph{ending}"
    path.write_bytes(b"what was there")
    result = ampnet("graph", "list-reduction", "--workers", 2, "-o", path)
    assert result.returncode == 0 and result.stdout == "", result.stderr
    data = path.read_bytes()
    assert data.startswith({".mmd": b"flowchart", ".dot": b"digraph", ".svg": b"<?xml"}.get(ending, b"\x89PNG"))
    if ending == ".svg":
        ElementTree.fromstring(data)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["graph.pdf", "graph", "graph.mmd.txt"])
def test_an_unknown_ending(tmp_path, name):
    check_one_line(ampnet("graph", "mnist", "-o", tmp_path / name), 1, "unknown ending", ".mmd, .dot, .svg, .png")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_and_one_in_the_way(tmp_path):
    check_one_line(ampnet("graph", "list-reduction", "-o", tmp_path / "no" / "graph.svg"), 1, "cannot be written")
    (tmp_path / "graph.svg").mkdir()
    check_one_line(ampnet("graph", "list-reduction", "-o", tmp_path / "graph.svg"), 1, "cannot be written")
    assert [p.name for p in tmp_path.iterdir()] == ["graph.svg"]


def test_a_task_whose_sizes_are_in_data_that_are_not_there(tmp_path):
    path = tmp_path / "graph.svg"
    result = ampnet("graph", "qm9", "--data", tmp_path / "none", "-o", path)
    check_one_line(result, 1, "qm9", "none")
    assert not path.exists()


def test_the_placement_of_a_run(tmp_path):
    run = tmp_path / "run"
    assert ampnet(*TRAINED, "--out", run).returncode == 0
    recorded = (run / "config.toml").read_text()
    assert "[placement]" in recorded
    by_config = ampnet("graph", "list-reduction", "--config", run / "config.toml")
    by_placement = ampnet("graph", "list-reduction", "--hidden", 16, "--placement", run / "config.toml")
    assert by_config.returncode == 0 and by_config.stdout == by_placement.stdout, by_config.stderr + by_placement.stderr
    worker = tomllib.loads(recorded)["placement"]["cell"]
    assert f"cell: Linear 144x16 relu<br>worker {worker}" in by_config.stdout


def test_placements_that_do_not_fit(tmp_path):
    path = tmp_path / "placement.toml"
    names = ("embedding", "loop", "cell", "classifier", "loss")
    path.write_text("".join(f"{name} = {i}\n" for i, name in enumerate(names)))
    result = ampnet("graph", "list-reduction", "--placement", path)
    assert result.returncode == 0 and "worker 4" in result.stdout, result.stderr
    check_one_line(ampnet("graph", "list-reduction", "--placement", path, "--workers", 2), 1, "worker 2", "0 to 1")
    path.write_text("cell = 0\n")
    check_one_line(ampnet("graph", "list-reduction", "--placement", path), 1, "'embedding' is missing")
    path.write_text(path.read_text().replace("0", "-1") + "".join(f"{name} = 0\n" for name in names if name != "cell"))
    check_one_line(ampnet("graph", "list-reduction", "--placement", path), 1, "'cell'", "got -1")
