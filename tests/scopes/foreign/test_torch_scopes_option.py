"""``pytest --torch-scopes``: each test runs in a scope that owns PyTorch's tensors, its fixtures do not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
OPTIONS = pytest.mark.parametrize("option", ["--torch-scopes", "--torch-scopes-exact"])

PROJECT = """
import unittest
import pytest, torch
from scopes import TensorDisposedError, current_dispose_scope

KEPT = []

@pytest.fixture(scope="module")
def weights():
    yield (weights := torch.ones(3))
    assert weights.sum() == 3

@pytest.fixture
def batch():
    yield (batch := torch.ones(3))
    assert batch.sum() == 3
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs pytest on a file of tests in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_ADDOPTS", "DISPOSESCOPE_TRACK"):
        monkeypatch.delenv(name, raising=False)

    def run(tests: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_project=PROJECT + tests)
        return pytester.runpytest_subprocess(
            "-p", "disposescope.pytest_plugin", "-p", "no:cacheprovider", *options
        )

    return run


IN_A_SCOPE = """
def test_current():
    assert current_dispose_scope().name == "test_current"
    assert torch.ones(3) in current_dispose_scope()

class TestCase(unittest.TestCase):
    def test_in_a_class(self):
        assert torch.ones(3) in current_dispose_scope()
"""


@OPTIONS
def test_each_test_runs_in_a_scope_with_its_name(run, option: str) -> None:
    run(IN_A_SCOPE, option).assert_outcomes(passed=2)


def test_without_the_option_no_scope_is_open(run) -> None:
    run("def test_none():\n    assert current_dispose_scope() is None").assert_outcomes(passed=1)


ENDING = """
def test_keeps():
    KEPT.append(torch.ones(3) * 2)

def test_uses():
    with pytest.raises(TensorDisposedError, match="its dispose scope 'test_keeps' ended"):
        KEPT[0] + 1
    assert current_dispose_scope().name == "test_uses"
"""


@OPTIONS
def test_the_scope_ends_with_the_test(run, option: str) -> None:
    run(ENDING, option).assert_outcomes(passed=2)


def test_the_scope_ends_when_the_test_fails(run) -> None:
    failing = ENDING.replace("* 2)", "* 2)\n    assert False")
    run(failing, "--torch-scopes").assert_outcomes(passed=1, failed=1)


FIXTURES = """
def test_first(weights, batch):
    assert batch not in current_dispose_scope() and weights not in current_dispose_scope()
    assert (weights + batch).sum() == 6

def test_second(weights, batch):
    assert (weights + batch).sum() == 6

class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weights = torch.ones(3)

    def setUp(self):
        self.batch = torch.ones(3)

    def tearDown(self):
        assert (self.weights + self.batch).sum() == 6

    def test_third(self):
        assert (self.weights + self.batch).sum() == 6

    def test_fourth(self):
        assert (self.weights + self.batch).sum() == 6
"""


@OPTIONS
def test_fixtures_stay_alive_until_they_end(run, option: str) -> None:
    run(FIXTURES, option).assert_outcomes(passed=4)


def test_leaks_are_judged_after_the_scope(run) -> None:
    leaking = "def test_keeps():\n    KEPT.append(torch.ones(3))"
    run(leaking, "--torch", "--tensor-leaks").assert_outcomes(passed=1, errors=1)
    run(leaking, "--torch", "--tensor-leaks", "--torch-scopes").assert_outcomes(passed=1)


def test_workers_of_xdist_open_scopes_too(run) -> None:
    run(IN_A_SCOPE, "--torch-scopes", "-p", "xdist", "-n", "2").assert_outcomes(passed=2)


def test_without_pytorch_the_option_says_what_is_missing(run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(torch="raise ImportError('no PyTorch here')")
    result = run("", "--torch-scopes")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--torch-scopes: *"])
