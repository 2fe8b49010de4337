"""Ctrl-C and SIGTERM: in every phase of a run gone within two seconds, with the right exit code and a whole checkpoint."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ampnet.experiments import stopping
from ampnet.experiments.folder import CHECKPOINT, METRICS
from ampnet.training import checkpoint

from .test_cli import ROOT

SOON = 2.0   # seconds
BOTH = pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
WORKERS = pytest.mark.parametrize("workers", [1, 4])
PHASES = {   # options that make a run spend nearly all its time in it
    "training": ("--limit", 50_000, "--hidden", 32, "--checkpoint-every", 2000),
    "evaluating": ("--limit", 10, "--hidden", 200),
    "saving": ("--limit", 1000, "--hidden", 300, "--checkpoint-every", 1)}


def start(*command, **environment):
    # A shell's background jobs ignore Ctrl-C, and what they start inherits that: not what is tested here.
    return subprocess.Popen([sys.executable, *map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env={**os.environ, **environment},
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def train(out, *options, **environment):
    return start("-m", "ampnet.cli", "train", "list-reduction", "--epochs", 5000, "--target", 1, "--out", out, *options,
                 **environment)


def stopped(process, *numbers):
    """Send signals at once, and return (seconds until the process was gone, its errors)."""
    started = time.perf_counter()
    try:
        for number in numbers:
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        return time.perf_counter() - started, errors
    finally:
        process.kill()


def wait_for(process, condition):
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def is_under_way(out, phase):
    if phase == "evaluating":
        return (out / METRICS).exists()
    path = out / CHECKPOINT
    return path.exists() and checkpoint.read(path)[1]["instances"] > 0


def check_loads(out):
    """The checkpoint is whole; returns its position."""
    arrays, position, _ = checkpoint.read(out / CHECKPOINT)
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert not list(out.glob("*.part"))
    return position


@WORKERS
@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_in_every_phase(tmp_path, phase, workers):
    process, out = train(tmp_path / "run", "--workers", workers, *PHASES[phase]), tmp_path / "run"
    wait_for(process, lambda: is_under_way(out, phase))
    time.sleep(0.3)
    seconds, errors = stopped(process, signal.SIGINT)
    assert process.returncode == 130 and seconds < SOON, (seconds, errors)
    position = check_loads(out)
    where = f" and {position['instances']:,} instances of the next" if position["instances"] else ""
    assert where or phase == "evaluating"
    assert errors == f"interrupted: the last checkpoint is {out / CHECKPOINT}, after epoch {position['epoch']}{where}\n"


@WORKERS
def test_sigterm_ends_with_143(tmp_path, workers):
    process, out = train(tmp_path / "run", "--workers", workers, *PHASES["training"]), tmp_path / "run"
    wait_for(process, lambda: is_under_way(out, "training"))
    seconds, errors = stopped(process, signal.SIGTERM)
    assert process.returncode == 143 and seconds < SOON, (seconds, errors)
    assert errors.startswith("terminated: the last checkpoint is") and check_loads(out)


def test_a_second_ctrl_c_does_not_wait_for_the_end(tmp_path):
    """The system's default for the signal ends the process; a shell shows 130 for that as well."""
    process, out = train(tmp_path / "run", *PHASES["saving"]), tmp_path / "run"
    wait_for(process, lambda: is_under_way(out, "saving"))
    seconds, errors = stopped(process, signal.SIGINT, signal.SIGINT)
    assert process.returncode in (130, -signal.SIGINT) and seconds < SOON and "Traceback" not in errors, (seconds, errors)
    checkpoint.read(out / CHECKPOINT)


@pytest.mark.slow
@pytest.mark.parametrize("number, code, after", [(signal.SIGINT, 130, 1), (signal.SIGINT, 130, 8), (signal.SIGINT, 130, 15),
                                                (signal.SIGTERM, 143, 8)])
def test_while_kernels_are_compiled(tmp_path, number, code, after):
    """Half of these ended in "Exception ignored in", and the run went on, while it was raised where it came."""
    process = train(tmp_path / "run", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert process.stderr.readline().startswith("compiling")
    time.sleep(after)
    seconds, errors = stopped(process, number)
    assert process.returncode == code and seconds < SOON, (seconds, errors)
    assert "Traceback" not in errors and not (tmp_path / "run").exists()


@BOTH
def test_while_it_prepares(tmp_path, number, code):
    process = start("-c", "import time\nfrom ampnet.experiments.stopping import ends_at_once\n"
                          "with ends_at_once():\n    print('ready', flush=True)\n    time.sleep(60)")
    assert process.stdout.readline() == "ready\n"
    seconds, errors = stopped(process, number)
    assert process.returncode == code and seconds < SOON and errors in ("interrupted\n", "terminated\n")


@BOTH
def test_the_second_signal_ends_what_the_first_did_not(number, code):
    process = start("-c", "import time\nfrom ampnet.experiments.stopping import is_noted\n"
                          "with is_noted():\n    print('ready', flush=True)\n    time.sleep(60)")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    time.sleep(0.3)
    assert process.poll() is None
    seconds, _ = stopped(process, number)
    assert process.returncode == -number == 128 - code and seconds < SOON


@pytest.fixture
def handlers():
    """The signals as Python has them by itself; put back afterwards."""
    before = {number: signal.getsignal(number) for number in stopping.EXCEPTIONS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def test_a_signal_in_a_finaliser_is_not_lost(handlers):
    with stopping.is_noted() as noted:
        noted.check()
        Dying()
        with pytest.raises(KeyboardInterrupt):
            noted.check()


@pytest.mark.parametrize("number, error", stopping.EXCEPTIONS.items())
def test_elsewhere_a_signal_is_raised(handlers, number, error):
    with pytest.raises(error), stopping.raises():
        signal.raise_signal(number)
    assert signal.getsignal(number) == signal.SIG_DFL   # the next one ends the process


def test_without_a_signal_the_handlers_are_put_back(handlers):
    with stopping.raises():
        outer = signal.getsignal(signal.SIGINT)
        with stopping.is_noted():
            assert signal.getsignal(signal.SIGINT) is not outer
        assert signal.getsignal(signal.SIGINT) is outer
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_shell_told_to_be_ignored_stays_ignored(handlers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stopping.raises():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
