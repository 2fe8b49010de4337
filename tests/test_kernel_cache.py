"""The cache of compiled kernels: repaired where damaged, renewed where sources change, and never in anyone's way."""

import ast
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ampnet.kernels import CACHE_FOLDER, cache

ROOT = Path(__file__).parent.parent
RUN = """
import ampnet
from ampnet.kernels import CACHE_FOLDER
data = ampnet.datasets.list_reduction.load(seed=0, train=30, valid=5)
ampnet.Trainer(ampnet.graphs.rnn(embedding=4, hidden=4), optimizer="sgd").fit(data.train, epochs=1)
print("trained", CACHE_FOLDER)
"""
PLACES = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "TMPDIR", "PYTHONPATH")
COLD = [pytest.mark.slow, pytest.mark.timeout(1800)]


def start(code=RUN, root=ROOT, **environment):
    """A Python of its own, with nothing in its environment that says where a cache may be."""
    kept = {k: v for k, v in os.environ.items() if k not in PLACES}
    return subprocess.Popen([sys.executable, "-c", code], cwd=root, env=kept | {k: str(v) for k, v in environment.items()},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_finishes(process, folder):
    """The process trained, with its kernels in this folder."""
    out, errors = process.communicate(timeout=1500)
    assert process.returncode == 0, errors[-3000:]
    assert out.split() == ["trained", str(folder)]
    assert "Traceback" not in errors


@pytest.fixture(scope="module")
def warm():
    """The cache of this very package, after a run: only our own folder's, so that a user's stays as it is."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        pytest.skip("NUMBA_CACHE_DIR names another cache")
    process = start(XDG_CACHE_HOME=CACHE_FOLDER.parent.parent.parent)
    assert_finishes(process, CACHE_FOLDER)
    return CACHE_FOLDER


def copy_of(warm, base):
    folder = base / "ampnet" / "kernels" / warm.name
    shutil.copytree(warm, folder)
    return folder


def own(folder, pattern):
    """A cache file of the runtime of this very package (others may lie there, of copies of it elsewhere)."""
    from numba.core.caching import UserProvidedCacheLocator
    place = folder / UserProvidedCacheLocator.get_suitable_cache_subpath(str(ROOT / "ampnet" / "runtime" / "memory.py"))
    return next(place.glob(pattern))


DAMAGE = {"half": lambda raw: raw[:len(raw) // 2], "empty": lambda raw: b"", "but one": lambda raw: raw[:-1],
          "noise": lambda raw: b"\x9f" * len(raw)}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", ["half", *(pytest.param(name, marks=pytest.mark.slow) for name in list(DAMAGE)[1:])])
def test_a_damaged_file_is_repaired(warm, tmp_path, ending, damage):
    folder = copy_of(warm, tmp_path)
    path = own(folder, f"memory.free_memory*.{ending}")
    good = path.read_bytes()
    path.write_bytes(DAMAGE[damage](good))
    assert_finishes(start(XDG_CACHE_HOME=tmp_path), folder)
    assert len(path.read_bytes()) == len(good)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cache_of_which_every_file_is_cut_off_is_repaired(warm, tmp_path):
    folder = copy_of(warm, tmp_path)
    for path in folder.rglob("*.nb?"):
        path.write_bytes(path.read_bytes()[:-7])
    assert_finishes(start(XDG_CACHE_HOME=tmp_path), folder)
    assert_finishes(start(XDG_CACHE_HOME=tmp_path), folder)


FINGERPRINTS = """
import sys
from pathlib import Path
from ampnet.kernels import cache
assert Path(cache.__file__).is_relative_to(sys.argv[1]), cache.__file__
seen = {cache.fingerprint()}
for package in cache.COMPILED_PACKAGES:
    for path in sorted((Path(sys.argv[1]) / "ampnet" / package).glob("*.py")):
        before = path.read_bytes()
        path.write_bytes(before + b"#")
        changed = cache.fingerprint()
        assert changed not in seen, path
        seen.add(changed)
        path.write_bytes(before)
        assert cache.fingerprint() in seen
new = path.with_name("new_kernel.py")
new.write_text("")
assert cache.fingerprint() not in seen
new.unlink()
(Path(sys.argv[1]) / "ampnet" / "errors.py").write_text("# not compiled")
assert cache.fingerprint() in seen
print("changed", len(seen) - 1)
"""


def test_a_change_in_any_compiled_source_changes_the_folder(tmp_path):
    shutil.copytree(ROOT / "ampnet", tmp_path / "ampnet", ignore=shutil.ignore_patterns("__pycache__"))
    code = FINGERPRINTS.replace("sys.argv[1]", repr(str(tmp_path)))
    out, errors = start(code, tmp_path, XDG_CACHE_HOME=tmp_path / "cache").communicate(timeout=120)
    sources = sum(len(list((ROOT / "ampnet" / package).glob("*.py"))) for package in cache.COMPILED_PACKAGES)
    assert out.split() == ["changed", str(sources)], errors


def cached(tree):
    """Whether a module compiles something that goes to disk: it names one of our decorators, or says `cache=True`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = {ast.unparse(d).split(".")[-1].split("(")[0] for d in node.decorator_list}
            if names & {"operation", "kernel", "exact_kernel", "guard_kernel"}:
                return True
        if isinstance(node, ast.keyword) and node.arg == "cache" and ast.unparse(node.value) == "True":
            return True
    return False


def test_all_that_is_cached_is_in_the_packages_whose_sources_are_hashed():
    folder = ROOT / "ampnet"
    found = {str(path.parent.relative_to(folder)) for path in folder.rglob("*.py")
             if cached(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == set(cache.COMPILED_PACKAGES)


def files_of(folder):
    return {path for path in folder.rglob("*") if "__pycache__" not in path.parts} | set(folder.rglob("*.nb?"))


def test_a_run_without_a_home_keeps_its_kernels_in_the_temporary_folder(warm, tmp_path):
    """Nothing is written into the package."""
    before = files_of(ROOT / "ampnet")
    tmp_path.chmod(0o700)
    folder = tmp_path / f"ampnet-{os.getuid()}" / "kernels" / warm.name
    folder.parent.parent.mkdir(mode=0o700)
    shutil.copytree(warm, folder)
    assert_finishes(start(HOME="/dev/null/nowhere", TMPDIR=tmp_path), folder)
    assert files_of(ROOT / "ampnet") == before


@pytest.mark.parametrize("shared", ["open", "foreign", "link"])
def test_a_temporary_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch, shared):
    """What lies in a cache is run. In /tmp anybody can make the folder before we do."""
    monkeypatch.setenv("HOME", "/dev/null/nowhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = tmp_path / f"ampnet-{os.getuid()}"
    if shared == "link":
        (tmp_path / "theirs").mkdir()
        place.symlink_to(tmp_path / "theirs")
    else:
        place.mkdir()
        if shared == "open":
            place.chmod(0o777)
        elif os.getuid() == 0:
            os.chown(place, 12345, 12345)
        else:
            pytest.skip("needs root, to make a folder somebody else's")
    used = cache.user_cache()
    assert used != place and not used.is_relative_to(place)
    used.mkdir(parents=True, exist_ok=True)
    status = used.stat()
    assert status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o022


@pytest.mark.parametrize("home", [pytest.param(True, marks=COLD), pytest.param(False, marks=COLD)])
def test_a_read_only_install_compiles_and_runs(tmp_path, home):
    root, place = tmp_path / "installed", tmp_path / "tmp"
    shutil.copytree(ROOT / "ampnet", root / "ampnet", ignore=shutil.ignore_patterns("__pycache__"))
    place.mkdir(mode=0o700)
    for path in (root, *root.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = files_of(root)
    if home:
        (tmp_path / "home").mkdir()
        expected, environment = tmp_path / "home" / ".cache" / "ampnet", {"HOME": tmp_path / "home"}
    else:
        expected, environment = place / f"ampnet-{os.getuid()}", {"HOME": "/dev/null/nowhere"}
    try:
        assert_finishes(start(root=root, TMPDIR=place, PYTHONDONTWRITEBYTECODE=1, **environment),
               expected / "kernels" / cache.fingerprint())
        assert files_of(root) == before
    finally:
        for path in (root, *root.rglob("*")):
            path.chmod(0o755)


@pytest.mark.parametrize("processes", [pytest.param(4, marks=COLD)])
def test_several_cold_starts_at_once_in_one_folder(tmp_path, processes):
    folder = tmp_path / "ampnet" / "kernels" / cache.fingerprint()
    running = [start(XDG_CACHE_HOME=tmp_path) for _ in range(processes)]
    try:
        for process in running:
            assert_finishes(process, folder)
    finally:
        for process in running:
            process.kill()
    assert_finishes(start(XDG_CACHE_HOME=tmp_path), folder)   # and what they left behind is whole
    assert not list(folder.rglob("*.tmp.*"))


WATCHED = """
from numba.core import event
import ampnet
data = ampnet.datasets.list_reduction.load(seed=0, train=30, valid=5)
machine = ampnet.graphs.Machine(ampnet.graphs.rnn(embedding=4, hidden=4).initialise(0), 2, min_update_frequency=5)
machine.optimizer("adam", 1e-3)
passes = []

class Watch(event.Listener):
    def on_start(self, event):
        passes.append(event)

    def on_end(self, event):
        pass

event.register("numba:run_pass", Watch())
machine.run(data.train, max_active_keys=4, record=True)
machine.flush()
machine.run(data.valid, training=False, max_active_keys=4)
machine.forget()
print("compiled", len(passes))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nothing_is_compiled_once_workers_may_start(tmp_path):
    out, errors = start(WATCHED, XDG_CACHE_HOME=tmp_path).communicate(timeout=1500)
    assert out.split() == ["compiled", "0"], out + errors
