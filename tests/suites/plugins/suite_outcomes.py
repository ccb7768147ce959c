"""A pytest plugin for ``tests.suites``: it seeds each test, and writes its outcome.

pytest loads it by name in the process of a suite. A suite's own package ``tests`` would hide ours there.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy
import pytest
import torch

# The worse outcome of setup, call and teardown counts.
_ORDER = ("passed", "skipped", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("suites")
    group.addoption(
        "--outcomes", metavar="FILE", help="write the outcome of each test there, as a line of JSON"
    )
    group.addoption("--each", type=int, default=1, metavar="N", help="run one test of N, evenly spread")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose one test of N: the same ones in each run."""
    step = config.getoption("--each")
    if step > 1:
        chosen = items[::step]
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % step])
        items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed by the test's name: some tests draw data for which they fail, such as timm's of `csgdp`."""
    seed = crc32(item.nodeid.encode())
    for set_seed in (random.seed, numpy.random.seed, torch.manual_seed):
        set_seed(seed)


def pytest_configure(config: pytest.Config) -> None:
    """Note outcomes in the process that reports them: with xdist, not in its workers."""
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(Path(path)), "suite-outcomes")


class _Outcomes:
    def __init__(self, path: Path) -> None:
        self.path = path
        # By test: its outcome, its seconds, the last line of its error, and how many calls had a scope.
        self.outcomes: dict[str, tuple[str, float, str, int]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Join what the three phases of a test report, and write the outcome after the last phase."""
        outcome, seconds, error, _ = self.outcomes.get(report.nodeid, ("passed", 0.0, "", 0))
        if report.outcome not in _ORDER:  # pytest-rerunfailures: "rerun"; the next run of the test decides
            self.outcomes.pop(report.nodeid, None)
            return
        if _ORDER.index(report.outcome) > _ORDER.index(outcome):
            outcome = report.outcome
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            error = getattr(crash, "message", None) or str(report.longrepr)
        properties: dict[str, Any] = dict(report.user_properties)
        calls = properties.get("calls", 0)
        self.outcomes[report.nodeid] = outcome, seconds + report.duration, error, calls
        if report.when == "teardown":
            # At once: the process may die in a later test.
            with self.path.open("a") as file:
                file.write(json.dumps([report.nodeid, *self.outcomes[report.nodeid]]) + "\n")
