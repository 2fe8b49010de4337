"""`ampnet reproduce`: what it refuses before it trains, all reproductions in small, and Ctrl-C."""

import importlib.util
import json
import shlex
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from ampnet import cli
from ampnet.experiments import run
from ampnet.experiments.folder import METRICS
from ampnet.experiments.paper import NAMES, find, plots, tables
from ampnet.experiments.paper.runs import DONE
from tests.test_stopping import SOON, start, stopped, wait_for

SMALL = """
from ampnet.experiments.paper import sizes
from ampnet.cli import main
sizes.QUICK["list-reduction"] = sizes.Size((4,), {"limit": 1000, "hidden": 8, "epochs": 12, "target": 1.0}, ())
main(["reproduce", "replicas", "--quick", "--out", "%s", "--jobs", "%d"])
"""


def reproduce(*arguments):
    return CliRunner().invoke(cli.main, ["reproduce", *map(str, arguments)])


def check_refused(result, out, *texts):
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1 and result.stderr.startswith("error: ")
    assert all(text in result.stderr for text in texts), result.stderr
    assert not (out / "runs").exists()


def test_every_reproduction_says_what_it_is():
    for name in NAMES:
        module = find(name)
        assert (module.NAME, bool(module.ABOUT), callable(module.reproduce)) == (name, True, True)
    assert reproduce("table9").exit_code == 2


def test_all_in_small_shares_its_runs(quick_sizes, tmp_path, monkeypatch):
    trained, train = [], run.train
    monkeypatch.setattr(run, "train", lambda *a: trained.append(a[1].path.name) or train(*a))
    result = reproduce("all", "--quick", "--seeds", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert len(trained) == len(set(trained)) == 3 + 4 + 3   # of table 1, of the sweep, of the replicas
    for name in NAMES:
        folder = tmp_path / name
        assert {p.suffix for p in folder.iterdir()} >= {".csv", ".md", ".txt", ".json"}, name
        assert all(p.with_suffix(".svg").exists() for p in folder.glob("*.png"))
        check_commands(folder / "commands.txt", tmp_path)
    rows = tables.read(tmp_path / "table1" / "table1.csv")
    assert [r["training"] for r in rows] == ["synchronous", "asynchronous, 4 in flight", "asynchronous, message by message"]
    assert all(r["seconds to target"] > 0 and r["training instances/s"] > 0 for r in rows)
    counts = tables.read(tmp_path / "staleness" / "histograms.csv")
    assert sum(r["gradients"] for r in counts if r["node"] == "classifier" and r["max_active_keys"] == 1) % 40 == 0
    assert "list-reduction" in (tmp_path / "README.md").read_text()


def check_commands(path, out):
    """Each names a run that is there and can be typed as it stands."""
    first, *rest = path.read_text().splitlines()
    assert first == f"ampnet reproduce {path.parent.name} --quick --seeds 1"
    commands = [line for line in rest if line.startswith("ampnet ")]
    assert commands or path.parent.name in ("fig1", "devices")   # these train no run with a directory
    for command in commands:
        words = shlex.split(command)
        assert words[:2] == ["ampnet", "train"] and (out / words[-1] / DONE).is_file()
        context = cli.train.make_context("train", words[2:])
        options = {name: value for name, value in context.params.items()
                   if value is not None and name not in ("task", "out", "resume", "quiet", "file", "placement")}
        recorded = run.find(context.params["task"]).resolve((None, options))
        done = json.loads((out / words[-1] / DONE).read_text())
        assert recorded.settings.seed == done["seed"] and done["command"] == command


def test_results_of_another_mode_or_of_something_else_are_refused(tmp_path):
    (tmp_path / "settings.json").write_text('{"quick": true, "seeds": 2}')
    check_refused(reproduce("sweep", "--out", tmp_path), tmp_path, "quick runs with 2 seeds", "full runs with 3 seeds")
    check_refused(reproduce("sweep", "--quick", "--seeds", 1, "--out", tmp_path), tmp_path, "not of quick runs with 1 seed")
    (tmp_path / "settings.json").write_text("{")
    check_refused(reproduce("sweep", "--quick", "--out", tmp_path), tmp_path, "damaged")
    (tmp_path / "settings.json").rename(tmp_path / "notes.txt")
    check_refused(reproduce("sweep", "--out", tmp_path), tmp_path, "no reproduction")
    for option in ("--seeds", "--jobs"):
        check_refused(reproduce("sweep", option, 0, "--out", tmp_path / "new"), tmp_path / "new", option[2:])


def test_without_matplotlib_nothing_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "find_spec", lambda name: None if name == "matplotlib" else importlib.util.find_spec(name))
    check_refused(reproduce("all", "--quick", "--out", tmp_path), tmp_path, 'pip install "ampnet[plots]"')


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("number, code, jobs", [(signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 2)])
def test_interrupted_and_started_again(tmp_path, number, code, jobs):
    process = start("-c", SMALL % (tmp_path, jobs))
    wait_for(process, lambda: any(len(lines(path)) >= 3 for path in tmp_path.glob(f"runs/*/{METRICS}")))
    seconds, errors = stopped(process, number)
    assert process.returncode == code and seconds < SOON, (seconds, errors)
    assert "goes on from there" in errors.splitlines()[-1] and "Traceback" not in errors
    assert not list(tmp_path.glob(f"runs/*/{DONE}"))
    again = start("-c", SMALL % (tmp_path, jobs))
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    done = [json.loads(path.read_text())["resumed"] for path in sorted(tmp_path.glob(f"runs/*/{DONE}"))]
    assert len(done) == 3 and 1 <= sum(done) <= jobs   # as many as were under way
    for path in tmp_path.glob(f"runs/*/{METRICS}"):
        assert [json.loads(line)["epoch"] for line in lines(path)] == list(range(1, 13))
    assert Path(tmp_path, "README.md").is_file()
