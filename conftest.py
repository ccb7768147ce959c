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

# The same examples at each run, so that a failure comes from what changed; `make soak` draws others.
# Hypothesis looks how long it takes to draw them: a busy machine is slow.
settings.register_profile(
    "default",
    max_examples=20,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", max_examples=500, deadline=None, suppress_health_check=[*HealthCheck])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules by other libraries' names, for programs that run beside PyTorch: pytest would import them here.
collect_ignore = ["tests/programs/stand_ins"]


@pytest.fixture(scope="module", autouse=True)
def collections_pass_over_what_was_there_before() -> None:
    # Else each collection walks all of NumPy, Hypothesis and the reports of earlier tests: 40 ms a test.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_scope_is_left_current(collections_pass_over_what_was_there_before: None) -> Iterator[None]:
    yield
    left = current_dispose_scope()
    while (scope := current_dispose_scope()) is not None:
        scope.dispose()
    gc.collect()
    gc.freeze()  # what is left belongs to pytest: the next test's collection has nothing to walk
    assert left is None, f"the test left {left} open"


@pytest.fixture(scope="module", autouse=True)
def the_main_module_is_as_before() -> Iterator[None]:
    # A shell of IPython replaces it by one without `__spec__`, with which no process can be spawned.
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture(autouse=True)
def numpy_reports_as_before() -> Iterator[None]:
    # An interrupt at the door of `np.errstate` leaves the settings as they are inside.
    with np.errstate():
        yield


@pytest.fixture
def window() -> Callable[[], DisposeStatistics]:
    """Return a function that gives the figures since the test began; others' leftovers are not in them."""
    gc.collect()
    before = statistics.snapshot()
    return lambda: statistics.snapshot() - before


@pytest.fixture
def hectic() -> Iterator[None]:
    """Let the interpreter change threads as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
