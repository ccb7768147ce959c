"""Fixtures of all tests and of the examples in docstrings; profiles of Hypothesis."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from scopes import DisposeStatistics, current_dispose_scope, statistics

# Each run has the same examples, so that a failure comes from a change; `make soak` draws others. The check
# for slow generation of examples would fail on a busy machine.
settings.register_profile(
    "default",
    max_examples=20,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", max_examples=500, deadline=None, suppress_health_check=[*HealthCheck])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Programs that tests start print without colours and break no line, whatever the terminal of the tests is.
for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "NO_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Marks tests with the extras they need.
pytest_plugins = ["tests.collection"]

# Modules with the names of other libraries, for programs that run beside PyTorch: pytest would import them.
collect_ignore = ["tests/programs/stand_ins"]


@pytest.fixture(scope="module", autouse=True)
def earlier_objects_are_frozen() -> None:
    # Otherwise each collection visits NumPy, Hypothesis and the reports of earlier tests: 40 ms a test.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_scope_is_left_current(earlier_objects_are_frozen: None) -> Iterator[None]:
    yield
    left = current_dispose_scope()
    while (scope := current_dispose_scope()) is not None:
        scope.dispose()
    gc.collect()
    gc.freeze()  # the remaining objects belong to pytest: collections of the next test skip them
    assert left is None, f"the test left {left} open"


@pytest.fixture(autouse=True)
def reports_have_no_memory_of_earlier_tests() -> None:
    # Some tests leave memory that PyTorch never frees, which `scopes.torch.still_held()` would list.
    disposal = sys.modules.get("scopes.adapters.torch.disposal")
    if disposal is not None:
        disposal.storages.clear()


@pytest.fixture(scope="module", autouse=True)
def main_module_is_restored() -> Iterator[None]:
    # A shell of IPython replaces it by one without `__spec__`, which prevents spawning a process.
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture(autouse=True)
def numpy_error_settings_are_restored() -> Iterator[None]:
    # An interrupt at the end of an `np.errstate` block keeps the settings of the block.
    with np.errstate():
        yield


@pytest.fixture
def window() -> Callable[[], DisposeStatistics]:
    """Return a function that returns the figures since the test began, without objects of earlier tests."""
    gc.collect()
    before = statistics.snapshot()
    return lambda: statistics.snapshot() - before


@pytest.fixture
def fast_thread_switches() -> Iterator[None]:
    """Let the interpreter switch threads as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
