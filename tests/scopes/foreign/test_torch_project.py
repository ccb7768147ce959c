"""The pytest plugin on the tests of a PyTorch project: leaks fail with their line, clean tests pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]

PROJECT = """
import torch
from torch import nn

class Net(nn.Module):
    cache = {}

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 2)
        self.mask = None

    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(16)
        return self.head(torch.relu(self.body(x)) * self.mask)

def train(net, steps, on_loss=lambda loss: None):
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(steps):
        loss = net(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        on_loss(loss)
    return loss.item()

def encode(x):
    key = tuple(x.shape)
    if key not in Net.cache:
        Net.cache[key] = torch.arange(x.numel())  # leaks a table
    return x.flatten() + Net.cache[key]
"""

TESTS = """
import pytest, torch
from project import Net, encode, train

HISTORY, ERRORS, CALLBACKS = [], [], []
SHARED = Net()
TOTAL = [0]

@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()

@pytest.fixture(scope="module")
def data():
    return torch.randn(4, 8)

def test_training_is_clean(net):
    assert train(net, 3) < 10

def test_evaluation_is_clean(net, data):
    with torch.no_grad():
        assert net(data).shape == (4, 2)

def test_a_failed_call_is_clean(net):
    with pytest.raises(RuntimeError):
        net(torch.ones(4, 9))

def test_gradients_are_clean(net):
    x = torch.ones(4, 8, requires_grad=True)
    net(x).sum().backward()
    assert x.grad is not None

def test_losses_in_a_list(net):
    train(net, 3, HISTORY.append)

def test_total(net):
    for _ in range(3):
        TOTAL[0] = TOTAL[0] + net(torch.ones(4, 8)).sum()  # leaks a total

def test_cache():
    encode(torch.ones(5))

def test_stored_exception(net):
    bad = torch.full((4, 8), float("nan"))  # leaks by an exception
    try:
        raise ValueError(bad)
    except ValueError as error:
        ERRORS.append(error)

def test_closure(net, data):
    outputs = net(data).detach()  # leaks by a closure
    CALLBACKS.append(lambda: outputs.sum())
"""
LEAKS = {
    "test_losses_in_a_list": "loss = net(torch.randn(4, 8)).square().mean()",
    "test_total": "# leaks a total",
    "test_cache": "# leaks a table",
    "test_stored_exception": "# leaks by an exception",
    "test_closure": "# leaks by a closure",
}
CLEAN = 4


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("PYTEST_ADDOPTS", "DISPOSESCOPE_TRACK"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(project=PROJECT)
    return pytester


def run(project: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    project.makepyfile(test_project=tests)
    return project.runpytest_subprocess(
        "-p", "disposescope.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers", *options
    )


def assert_leaks_failed_by_line(result: pytest.RunResult) -> None:
    result.assert_outcomes(passed=CLEAN + len(LEAKS), errors=len(LEAKS))
    for name, line in LEAKS.items():
        result.stdout.fnmatch_lines([f"*{name} left *"])
        assert line in str(result.stdout)


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "xdist"])
def test_the_option_fails_each_leaking_test_with_its_line_and_no_clean_one(
    project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    assert_leaks_failed_by_line(run(project, TESTS, "--torch", "--tensor-leaks", *workers))


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "xdist"])
def test_the_marker_watches_the_tests_that_have_it(
    project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    marked = TESTS.replace("def test_cache", "@pytest.mark.no_tensor_leaks\ndef test_cache").replace(
        "def test_training_is_clean", "@pytest.mark.no_tensor_leaks\ndef test_training_is_clean"
    )
    result = run(project, marked, "--torch", *workers)
    result.assert_outcomes(passed=CLEAN + len(LEAKS), errors=1)
    result.stdout.fnmatch_lines(["*test_cache left 1 disposable, 40 bytes*", "*leaks a table*"])


def test_options_may_stand_in_the_projects_settings(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naddopts = --torch --tensor-leaks")
    assert_leaks_failed_by_line(run(project, TESTS))


def test_with_no_torch_nothing_of_pytorch_is_watched(project: pytest.Pytester) -> None:
    result = run(project, TESTS, "--tensor-leaks", "--no-torch")
    result.assert_outcomes(passed=CLEAN + len(LEAKS))


def test_markers_with_limits_count_tensors_of_pytorch(project: pytest.Pytester) -> None:
    tests = """
import pytest, torch

@pytest.mark.limit_live_tensors(3)
def test_many():
    kept = [torch.ones(2) for _ in range(5)]

@pytest.mark.limit_live_tensors(5)
def test_few():
    kept = [torch.ones(2) for _ in range(5)]

@pytest.mark.limit_tensor_memory("1 kB")
def test_large():
    torch.ones(1000)

@pytest.mark.limit_tensor_memory("10 kB")
def test_small():
    torch.ones(1000)
"""
    result = run(project, tests, "--torch")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*limit_live_tensors allows 3 tensors at the same time. The peak of the test was 5.",
            "*kept = ?torch.ones(2) for _ in range(5)?*",
            "limit_tensor_memory allows 1000 bytes at the same time. The peak of the test was 3.906 KiB.",
            "*torch.ones(1000)*",
        ]
    )
