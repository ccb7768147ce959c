"""Modules of one system alone, such as fcntl, are needed by calls, not by imports."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from nn.parallel.regions import Layout, Region
from tests.modules import PACKAGES, host_of, modules_of

ROOT = Path(__file__).parents[1]

#: What Python lacks on Windows.
POSIX_ALONE = ("fcntl", "grp", "pwd", "readline", "resource", "syslog", "termios", "tty", "pty")


def test_every_module_is_imported_without_the_modules_of_posix():
    names = [name for package in PACKAGES for name in modules_of(package) if host_of(name) is None]
    program = f"""
import importlib, sys, warnings
warnings.simplefilter('error')
for name in {POSIX_ALONE!r}:
    sys.modules[name] = None
for name in {names!r}:
    importlib.import_module(name)
print("imported", len({names!r}))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stdout == f"imported {len(names)}\n", ended.stderr


def test_a_region_of_two_workers_says_that_the_system_has_no_locks(monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(NotImplementedError, match="run one worker on this machine, or run the job on"):
        Region("lockless", 0, 2, Layout(), 1.0, [0, 1])


def test_a_region_of_one_worker_needs_no_locks(monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    region = Region("alone", 0, 1, Layout(), 1.0, [0])
    region.close()


SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

for kind in ("isolated", "legacy"):
    options = {"config": kind} if sys.version_info >= (3, 13) else {"isolated": kind == "isolated"}
    new = interpreters.create(**options)
    interpreters.run_string(new, '''
for name in ("scopes", "tensor", "nn"):
    try:
        __import__(name)
    except ImportError as error:
        print(error, flush=True)
''')
    interpreters.destroy(new)
import nn
print(nn.Linear(2, 3).weight.shape)
"""


def test_a_subinterpreter_is_refused_and_the_main_one_works():
    command = [sys.executable, "-c", SUBINTERPRETER]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    *refusals, shape = ended.stdout.splitlines()
    assert len(refusals) == 6, ended.stdout + ended.stderr
    for refusal in refusals:
        assert refusal.startswith("disposescope can't be imported in a subinterpreter, because")
        assert "import it in the main interpreter, and use threads or processes" in refusal
    assert shape == "(3, 2)", ended.stderr


def test_no_compiled_module_takes_the_int64_of_numpy_for_that_of_c():
    # On macOS NumPy's is a `long` and C's a `long long`: pointers to them do not convert.
    folders = [ROOT / package for package in ("scopes", "tensor", "nn")]
    sources = [path for folder in folders for ending in ("*.pyx", "*.pxd") for path in folder.rglob(ending)]
    assert {path.suffix for path in sources} == {".pyx", ".pxd"}
    assert {path.relative_to(ROOT).parts[0] for path in sources} == {"scopes", "tensor", "nn"}
    assert [path.name for path in sources if "np.int64_t" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("package", ["scopes", "tensor", "nn"])
def test_a_python_that_is_forbidden_its_lock_is_refused(package):
    # As `PYTHON_GIL=0` does in a free-threaded Python: the lock stays off whatever is imported.
    program = f"import sys; sys._is_gil_enabled = lambda: False; import {package}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    *_, last = ended.stderr.splitlines()
    assert last.startswith(
        "ImportError: disposescope can't be imported while Python runs without its global lock, because"
    )
    assert "remove PYTHON_GIL=0 and -X gil=0" in last


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs a free-threaded Python")
def test_a_free_threaded_python_turns_its_lock_on_and_warns_and_does_not_import_without_it():
    program = "import sys, nn; print(sys._is_gil_enabled())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "True\n"
    assert "The global interpreter lock (GIL) has been enabled to load module 'scopes.core." in ended.stderr
    command = [sys.executable, "-X", "gil=0", "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "disposescope can't be imported while Python runs without its global lock" in ended.stderr
    assert ended.returncode == 1
