"""``pytest --torch --tensor-leaks``: what a library, a module or a cache keeps is no leak of the test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]

START = """
import functools
import pytest, torch
from torch import nn
from torch.distributions.transforms import ExpTransform

KEPT = []
"""

CLEAN = {
    "a distribution's cache": """
TRANSFORM = ExpTransform(cache_size=1)

def test_cache():
    x = torch.ones(3, requires_grad=True)
    TRANSFORM(x * 2)
    TRANSFORM.inv(torch.ones(4))
""",
    "an object of a library in a parameter": """
@pytest.mark.parametrize("transform", [ExpTransform(cache_size=1)])
def test_cache(transform):
    transform(torch.ones(3))
""",
    "a library's lazy attribute": """
NORMAL = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))

def test_lazy():
    assert NORMAL.precision_matrix.shape == (2, 2)
""",
    "a module's buffer": """
class Net(nn.Module):
    mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(3)
        return x * self.mask

NET = Net()

def test_mask():
    NET(torch.ones(3))
""",
    "an optimizer's state": """
NET = nn.Linear(2, 1)
OPTIMIZER = torch.optim.Adam(NET.parameters())

def test_step():
    NET(torch.ones(1, 2)).sum().backward()
    OPTIMIZER.step()
""",
    "a cached function": """
@functools.lru_cache
def table(n):
    return torch.arange(n)

def test_table():
    assert table(3).sum() == 3
""",
    "a fixture for all tests": """
@pytest.fixture(scope="module")
def cached():
    yield TRANSFORM(torch.ones(3))

TRANSFORM = ExpTransform(cache_size=1)

def test_cached(cached):
    assert cached.shape == (3,)
""",
    "a model of a fixture for all tests": """
@pytest.fixture(scope="module")
def model():
    return nn.Linear(2, 1)

def test_one(model):
    assert model.weight.shape == (1, 2)

def test_two(model):
    assert model.bias.shape == (1,)
""",
}

LEAKS = {
    "a list": """
def test_leaks():
    KEPT.append(torch.ones(3))
""",
    "a list beside a library's cache": """
TRANSFORM = ExpTransform(cache_size=1)

def test_leaks():
    TRANSFORM(torch.ones(5))
    KEPT.append(torch.ones(3))
""",
    "a module that the test made": """
def test_leaks():
    net = nn.Linear(2, 1)
    net.register_buffer("mask", torch.ones(2))
    KEPT.append(net)
""",
    "an optimizer that the test made": """
def test_leaks():
    net = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    KEPT.append(optimizer)
""",
    "a library's object that the test made": """
def test_leaks():
    transform = ExpTransform(cache_size=1)
    transform(torch.ones(3))
    KEPT.append(transform)
""",
    "losses in a module of the user": """
class Net(nn.Linear):
    losses = None

NET = Net(2, 1)
NET.losses = []

def test_leaks():
    NET.losses.append(NET(torch.ones(1, 2)).sum())
""",
    "a fixture for all tests": """
@pytest.fixture(scope="module")
def kept():
    KEPT.append(torch.ones(3))
    yield

def test_of_the_fixture(kept):
    pass
""",
}


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs pytest on tests in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_ADDOPTS", "DISPOSESCOPE_TRACK"):
        monkeypatch.delenv(name, raising=False)

    def run(files: dict[str, str]) -> pytest.RunResult:
        pytester.makepyfile(**{name: START + tests for name, tests in files.items()})
        options = ("-p", "disposescope.pytest_plugin", "-p", "no:cacheprovider", "--torch", "--tensor-leaks")
        return pytester.runpytest_subprocess(*options)

    return run


def test_tensors_kept_by_older_objects_are_no_leak(run) -> None:
    result = run({f"test_{n}": tests for n, tests in enumerate(CLEAN.values())})
    result.assert_outcomes(passed=sum(tests.count("def test_") for tests in CLEAN.values()))


def test_tensors_kept_by_the_test_itself_are_a_leak(run) -> None:
    result = run({f"test_{n}": tests for n, tests in enumerate(LEAKS.values())})
    result.assert_outcomes(passed=len(LEAKS), errors=len(LEAKS))
    result.stdout.fnmatch_lines(["*fixture 'kept' (scope: module) left 1 disposable, 12 bytes*"])
    # Beside the cache, only the tensor in the list counts.
    result.stdout.no_fnmatch_line("*TRANSFORM(*")
