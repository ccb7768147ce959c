"""Pytest plugin: markers and options that fail tests which leak tensors or hold too many.

It is installed with the package, and does nothing until it is used. A test uses the fixture
`dispose_statistics` or one of the markers ``no_tensor_leaks``, ``no_tensor_growth``,
``limit_live_tensors(n)``, ``limit_tensor_memory("10 MB")``. The options ``--tensor-leaks`` and
``--tensor-growth``, or the settings ``tensor_leaks = true`` and ``tensor_growth = true``, apply the first two
markers to all tests. ``-p no:disposescope`` turns the plugin off.

The library is loaded only when a test uses it. So in a project with its own module ``scopes``, only the tests
that use the plugin fail, with a message that names the module.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pytest

from disposescope.names import shadowing_message, shadows

__all__ = ["dispose_statistics"]

MARKERS = (
    "no_tensor_leaks(threshold=0): fail if tensors or scopes that the test creates outlive its teardown.",
    'no_tensor_growth(threshold="64 KiB"): fail if what a line keeps grows by this much during the test.',
    "limit_live_tensors(n): fail if more than n tensors that the test creates are alive at once.",
    'limit_tensor_memory(size): fail if more than this, for example "10 MB", is live above the start.',
)
_NAMES = {line.partition("(")[0] for line in MARKERS}
# The user property of a test's report that has its line for `--tensor-memory`.
PROPERTY = "tensor memory"
# The attribute that marks the report of a test's call if the test's teardown decides the result.
AWAITED = "disposescope_awaited"
# The attribute that marks the report of a fixture.
FIXTURE = "disposescope_fixture"


@pytest.fixture
def dispose_statistics() -> Any:
    """Live statistics of disposables since the test began: a `StatisticsView`.

    They restart when the test function starts, so they do not include fixtures.
    """
    _require_ours()
    return import_module("scopes.testing").StatisticsWindow()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("disposescope")
    group.addoption(
        "--tensor-leaks",
        action="store_true",
        help="fail each test and each fixture that leaves tensors alive: no_tensor_leaks for all",
    )
    group.addoption(
        "--tensor-leak-threshold",
        metavar="SIZE",
        help='how much memory a test may leave, for example "10 kB" (default: no tensor at all)',
    )
    group.addoption(
        "--tensor-growth",
        action="store_true",
        help="fail each test in which a line keeps more and more while it runs: no_tensor_growth for all",
    )
    group.addoption(
        "--tensor-memory",
        action="store_true",
        help="at the end, show for each test the tensors created, the peak of memory, and the tensors left",
    )
    group.addoption(
        "--tensor-peaks",
        metavar="FILE",
        help="fail each test whose peak of memory is larger than in FILE, for example peaks.lock",
    )
    group.addoption(
        "--peaks-tolerance",
        metavar="PERCENT|SIZE",
        help='how much a peak may grow, for example "5%%" or "10 kB" (default: 2%%, at least 256 bytes)',
    )
    group.addoption(
        "--update-peaks",
        action="store_true",
        help="write the peaks of this run to the file of --tensor-peaks",
    )
    group.addoption(
        "--torch",
        action="store_true",
        dest="disposescope_torch",
        help="make scopes own PyTorch's tensors: scopes.torch.enable()",
    )
    group.addoption(
        "--no-torch",
        action="store_true",
        dest="disposescope_no_torch",
        help="make these options and the markers ignore PyTorch's tensors",
    )
    group.addoption(
        "--torch-scopes",
        action="store_true",
        help="run each test inside `with new_dispose_scope(), scopes.torch.owning():`",
    )
    group.addoption("--torch-scopes-exact", action="store_true", help="the same with `owning(exact=True)`")
    parser.addini("tensor_leaks", "no_tensor_leaks for all tests", type="bool", default=False)
    parser.addini("tensor_growth", "no_tensor_growth for all tests", type="bool", default=False)
    parser.addini("tensor_leak_threshold", "how much memory a test may leave", default="")
    parser.addini("tensor_peaks", "the file of --tensor-peaks, relative to the root folder", default="")
    parser.addini("tensor_peaks_tolerance", "how much a peak may grow", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and start to watch if an option applies to all tests."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    options = ("--tensor-leaks", "--tensor-growth", "--tensor-memory", "disposescope_torch")
    settings = ("tensor_leaks", "tensor_growth")
    if any(map(config.getoption, options)) or any(map(config.getini, settings)):
        _require_ours_at_start()
        _begin_to_watch(config)
    _begin_peaks(config)
    is_exact = bool(config.getoption("--torch-scopes-exact"))
    if is_exact or config.getoption("--torch-scopes"):
        _require_ours_at_start()
        import_module("scopes.testing.plugin").begin_to_own(config, exact=is_exact)


def _begin_peaks(config: pytest.Config) -> None:
    """Compare the peaks of memory with those of a file, if an option or setting names one."""
    given, base = config.getoption("--tensor-peaks"), config.invocation_params.dir
    if not given:
        given, base = config.getini("tensor_peaks"), config.rootpath
    if given:
        _require_ours_at_start()
        import_module("scopes.testing.peaks").begin(config, given, base)
    elif config.getoption("--update-peaks"):
        raise pytest.UsageError("--update-peaks: name the file, such as --tensor-peaks=peaks.lock")


def pytest_collection_modifyitems(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Start to watch tests if one of them requests it."""
    if any(mark.name in _NAMES for item in items for mark in item.iter_markers()):
        if shadows(("scopes",)):
            config.pluginmanager.register(_Refusal(), "disposescope-refusal")
        else:
            _begin_to_watch(config)


def _begin_to_watch(config: pytest.Config) -> None:
    if not config.pluginmanager.has_plugin("disposescope-guard"):
        import_module("scopes.testing.plugin").begin_to_watch(config)


def _require_ours() -> None:
    for name, path in shadows(("scopes",)).items():
        pytest.fail(
            f"disposescope: {shadowing_message(name, path)}. Rename it, or move it into a package",
            pytrace=False,
        )


def _require_ours_at_start() -> None:
    try:
        _require_ours()
    except pytest.fail.Exception as error:
        raise pytest.UsageError(str(error)) from None


class _Refusal:
    """Plugin that fails tests with our markers if the library can't be loaded."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail a test with one of our markers."""
        if any(mark.name in _NAMES for mark in item.iter_markers()):
            _require_ours()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Prepare to count reports of fixtures."""
    session.config.pluginmanager.register(_Progress(session), "disposescope-progress")


class _Progress:
    """Plugin that counts a fixture with a report as one more test, so that pytest's progress ends at 100%."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._reported: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count the fixture before the terminal does. It counts one that has several reports once, too."""
        if FIXTURE in vars(report) and report.nodeid not in self._reported:
            self._reported.add(report.nodeid)
            self._session.testscollected += 1


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Do not count the call of a test with a known leak, because its teardown decides the result."""
    return ("", "", "") if AWAITED in vars(report) else None


def pytest_report_header() -> str | None:
    """Report modules of the project that shadow our packages."""
    found = shadows()
    if not found:
        return None
    return "\n".join([f"disposescope: {shadowing_message(name, path)}" for name, path in found.items()])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Report the leaks of fixtures that a worker of xdist found."""
    for data in getattr(node, "workeroutput", {}).get("disposescope_fixtures", ()):
        hook = node.config.hook
        hook.pytest_runtest_logreport(
            report=hook.pytest_report_from_serializable(config=node.config, data=data)
        )


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write the lines of ``--tensor-memory``."""
    if not config.getoption("--tensor-memory"):
        return
    lines = [
        f"{report.nodeid}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY and report.when == "teardown"
    ]
    if lines:
        terminalreporter.section("tensor memory")
        for line in sorted(set(lines)):
            terminalreporter.write_line(line)
