"""A file of tests is collected whole or is an error, and a skip names the package that is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = """
[tool.pytest.ini_options]
testpaths = ["tests", "benchmarks"]
pythonpath = ["."]
addopts = ["--import-mode=importlib", "--doctest-modules", "--strict-markers", "-p", "no:cacheprovider"]
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs pytest in a project with the given files: the status, and what it said."""
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.collection"]\n', encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    text = (ROOT / "tests" / "collection.py").read_text(encoding="utf-8")
    changed = text.replace('"cupy": {"cupy"}', '"cupy": {"no_such_package"}')
    assert changed != text
    (tmp_path / "tests" / "collection.py").write_text(changed, encoding="utf-8")

    def run(*args: str, forbid: str = "", **files: str) -> tuple[int, str]:
        for name, source in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.write_text(source, encoding="utf-8")
        environment = os.environ | {
            "DISPOSESCOPE_FORBID_SKIPS": forbid,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.pop("PYTEST_ADDOPTS", None)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-rs", *args],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def test_it():\n    pass\n\n+\n", "SyntaxError: invalid syntax"),
        (
            "def test_it():\n    pass\n\nimport tests.no_such_helper\n",
            "No module named 'tests.no_such_helper'",
        ),
        ("import no_such_package\n\ndef test_it():\n    pass\n", "No module named 'no_such_package'"),
        ("from tests import no_such_name\n\ndef test_it():\n    pass\n", "cannot import name 'no_such_name'"),
    ],
    ids=["syntax", "missing module of the project", "missing package", "missing name"],
)
def test_a_file_of_tests_that_cannot_be_imported_is_an_error(run: Run, source: str, error: str) -> None:
    status, said = run(tests__test_it=source)
    assert status == pytest.ExitCode.INTERRUPTED
    assert "ERROR collecting tests/test_it.py" in said
    assert error in said


def test_a_module_that_cannot_be_imported_is_an_error(run: Run) -> None:
    status, said = run(benchmarks__broken='"""Broken.\n\n>>> 1\n1\n"""\nimport no_such_name\n')
    assert status == pytest.ExitCode.INTERRUPTED
    assert "No module named 'no_such_name'" in said


def test_a_module_without_its_optional_package_is_a_skip_that_names_it(run: Run) -> None:
    status, said = run(benchmarks__adapter='"""Broken.\n\n>>> 1\n1\n"""\nimport no_such_package\n')
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "needs no_such_package" in said


SKIPPED = """
import pytest

no_such_package = pytest.importorskip("no_such_package")

def test_it():
    pass
"""


def test_a_file_without_its_package_is_a_skip_and_an_error_where_skips_are_forbidden(run: Run) -> None:
    status, said = run(tests__test_it=SKIPPED)
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "could not import 'no_such_package'" in said
    status, said = run(forbid="cupy")
    assert status == pytest.ExitCode.INTERRUPTED
    assert "this run forbids that: install 'no_such_package' (extra 'cupy')" in said


def test_a_file_that_imports_from_a_skipped_file_is_skipped_for_the_same_package(run: Run) -> None:
    status, said = run(
        tests__test_a=SKIPPED + "\n\ndef helper():\n    pass\n",
        tests__test_b="from tests.test_a import helper\n\n\ndef test_it():\n    helper()\n",
    )
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "2 skipped" in said
    assert "cannot import name" not in said


IN_A_TEST = """
import pytest

def test_it():
    pytest.importorskip({name})
"""


def test_a_test_without_its_package_is_a_skip_and_fails_where_skips_are_forbidden(run: Run) -> None:
    source = IN_A_TEST.format(name='"no_such_package"')
    status, said = run(tests__test_it=source)
    assert status == pytest.ExitCode.OK
    assert "1 skipped" in said
    status, said = run(forbid="foreign,cupy")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "this run forbids that" in said


def test_a_skip_that_no_marker_and_no_import_announces_fails(run: Run) -> None:
    source = IN_A_TEST.format(name='"no_such_" + "package"')
    status, said = run(tests__test_it=source)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "mark it with @pytest.mark.cupy" in said
    status, said = run(tests__test_it=source.replace("def test", "@pytest.mark.cupy\ndef test"))
    assert status == pytest.ExitCode.OK
    assert "1 skipped" in said


def test_a_skip_for_a_package_of_no_extra_fails(run: Run) -> None:
    status, said = run(tests__test_it=IN_A_TEST.format(name='"another_package"'))
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "'another_package', which is in no extra" in said


def test_a_skip_for_the_machine_is_never_forbidden_and_another_reason_is(run: Run) -> None:
    source = "import pytest\n\n@pytest.mark.cupy\ndef test_it():\n    pytest.skip({reason!r})\n"
    status, _ = run(tests__test_it=source.format(reason="needs a CUDA device"), forbid="cupy")
    assert status == pytest.ExitCode.OK
    status, said = run(tests__test_it=source.format(reason="later"), forbid="cupy")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "skipped for a reason of its own" in said


MARKED = """
import functools
import pytest
from tests import helpers
from tests.helpers import indirectly

@pytest.fixture
def package():
    import no_such_package

def test_plain(): pass
def test_by_fixture(package): pass
def test_by_helper(): indirectly()
def test_by_module(): helpers.directly()
def test_by_import(): import no_such_package.inner
def test_by_constant(): print(CASES)
@pytest.mark.skipif(functools.find_spec("no_such_package") is None, reason="needs no_such_package")
def test_by_decorator(): pass
class TestClass:
    def test_it(self): pytest.importorskip("no_such_package.inner")

CASES = {"one": lambda: pytest.importorskip("no_such_package")}
"""
HELPERS = """
def directly():
    import no_such_package

def indirectly():
    directly()
"""


def test_tests_that_need_a_package_are_found_through_fixtures_helpers_and_constants(run: Run) -> None:
    source = MARKED.replace("functools.", "importlib.util.").replace(
        "import functools", "import importlib.util"
    )
    _, said = run("-m", "cupy", "--collect-only", "-q", tests__test_it=source, tests__helpers=HELPERS)
    found = {line.rpartition("::")[2] for line in said.splitlines() if "::" in line}
    assert found == {
        *("test_by_fixture", "test_by_helper", "test_by_module", "test_by_import", "test_by_constant"),
        *("test_by_decorator", "test_it"),
    }


def test_examples_that_import_a_package_are_found(run: Run) -> None:
    source = (
        '"""One.\n\n>>> import no_such_package\n"""\n\ndef f():\n    """Two.\n\n    >>> 1\n    1\n    """\n'
    )
    _, said = run("-m", "cupy", "--collect-only", "-q", benchmarks__it=source)
    assert [line for line in said.splitlines() if "::" in line] == ["benchmarks/it.py::benchmarks.it"]
