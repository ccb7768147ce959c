"""Pytest plugin, second part: watches tests. Loaded when a marker or an option needs it.

For a watched test, tracking is on from its setup to the end of its teardown. If leaks are checked, the test
fails if tensors are alive after that. A fixture of wider scope is checked when it ends, and has its own
report. The markers and the options are in ``disposescope.pytest_plugin``.
"""

from __future__ import annotations

import gc
import os
import re
from bisect import bisect_left
from collections.abc import Generator
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any, Protocol

import pytest

from scopes._shared.sizes import format_bytes, parse_size
from scopes.adapters.foreign import count_keepers
from scopes.adapters.libraries import disable, enable, owning
from scopes.core.scope import DisposeScope, current_dispose_scope, new_dispose_scope
from scopes.reports.history import History
from scopes.reports.leaks import kept_by_each, snapshot
from scopes.reports.runs import LEAST_GROWTH, record_of
from scopes.testing.assertions import CURE, StatisticsWindow
from scopes.testing.leftovers import Leftovers, alive_of, alive_since, left, not_kept, others_than
from scopes.testing.peak_limits import Limits
from scopes.tracking import following, tracking
from scopes.tracking.meters import Meter
from scopes.tracking.records import Record

# The user property of a test's report that has its line for ``--tensor-memory``.
PROPERTY = "tensor memory"
# The attribute that marks the report of a test's call if the teardown decides the result.
AWAITED = "disposescope_awaited"
# The attribute that marks the report of a fixture.
FIXTURE = "disposescope_fixture"


def begin_to_watch(config: pytest.Config) -> None:
    """Watch the tests of this run that request it."""
    config.pluginmanager.register(_Guard(config), "disposescope-guard")
    if config.getoption("disposescope_no_torch"):
        os.environ[following.NO_TORCH] = "1"
        config.add_cleanup(_follow_torch_again)
    # For the whole run, so that it need not begin and end with each test.
    following.begin()
    config.add_cleanup(following.end)
    if config.getoption("disposescope_torch"):
        try:
            enable("torch")
        except ImportError as error:
            raise pytest.UsageError(f"--torch: {error}") from None
        config.add_cleanup(partial(disable, "torch"))


def _follow_torch_again() -> None:
    os.environ.pop(following.NO_TORCH, None)


def begin_to_own(config: pytest.Config, *, exact: bool) -> None:
    """Run each test of this run in a dispose scope that owns PyTorch's tensors."""
    plugin = _TorchScopes(exact)
    try:
        with plugin.owning():
            pass
    except ImportError as error:
        raise pytest.UsageError(f"--torch-scopes: {error}") from None
    config.pluginmanager.register(plugin, "disposescope-torch-scopes")


class _TorchScopes:
    """Plugin that opens a scope around each test function, and not around its fixtures."""

    def __init__(self, exact: bool) -> None:
        self.owning = partial(owning, "torch", exact=True) if exact else partial(owning, "torch")

    # The innermost wrapper, so that the scope ends before limits and leaks are checked.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Open the scope before the test's own code, and end it after."""
        with new_dispose_scope(item.name), self.owning():
            return (yield)


class _Checks:
    """The checks that a test's markers and the options request."""

    def __init__(self, item: pytest.Item) -> None:
        # The error of a marker or an option.
        self.error: str | None = None
        self.live_count: int | None = None
        self.nbytes: int | None = None
        config = item.config
        self.no_leaks = bool(config.getoption("--tensor-leaks") or config.getini("tensor_leaks"))
        self.shows_memory = bool(config.getoption("--tensor-memory"))
        # The bytes that the test may leave.
        self.threshold = 0
        given: Any = config.getoption("--tensor-leak-threshold") or config.getini("tensor_leak_threshold")
        try:
            self.threshold = parse_size(given or 0, "the threshold of tensor leaks")
        except ValueError as error:
            self.error = str(error)
        mark = item.get_closest_marker("no_tensor_leaks")
        if mark is not None:
            self.no_leaks = True
            self.threshold = self._threshold_of(mark, self.threshold)
        # The bytes by which a line may grow while the test runs.
        self.growth: int | None = None
        mark = item.get_closest_marker("no_tensor_growth")
        if mark is not None:
            self.growth = self._threshold_of(mark, LEAST_GROWTH)
        elif config.getoption("--tensor-growth") or config.getini("tensor_growth"):
            self.growth = LEAST_GROWTH
        mark = item.get_closest_marker("limit_live_tensors")
        if mark is not None:
            count: Any = mark.args[0] if len(mark.args) == 1 and not mark.kwargs else None
            if type(count) is int and count >= 0:
                self.live_count = count
            else:
                self._refuse(
                    mark,
                    "it requires one integer of at least 0: write @pytest.mark.limit_live_tensors(10)",
                )
        mark = item.get_closest_marker("limit_tensor_memory")
        if mark is not None:
            size: Any = mark.args[0] if len(mark.args) == 1 and not mark.kwargs else None
            try:
                self.nbytes = parse_size(size, "the size")
            except ValueError as error:
                why = str(error) if size is not None else "it requires one size"
                self._refuse(mark, f'{why}: write @pytest.mark.limit_tensor_memory("10 MB")')

    def _threshold_of(self, mark: pytest.Mark, default: int) -> int:
        if mark.args or not set(mark.kwargs) <= {"threshold"}:
            self._refuse(
                mark, f'its only argument is threshold: write @pytest.mark.{mark.name}(threshold="10 kB")'
            )
        elif mark.kwargs:
            try:
                return parse_size(mark.kwargs["threshold"], "threshold")
            except ValueError as error:
                self._refuse(mark, str(error))
        return default

    def _refuse(self, mark: pytest.Mark, why: str) -> None:
        given = [*map(repr, mark.args), *(f"{name}={value!r}" for name, value in mark.kwargs.items())]
        self.error = f"@pytest.mark.{mark.name}({', '.join(given)}): {why}"

    def __bool__(self) -> bool:
        limits = (self.growth, self.live_count, self.nbytes)
        return self.no_leaks or self.shows_memory or any(limit is not None for limit in limits)


class _Definition(Protocol):
    """The part of pytest's FixtureDef that is used here."""

    argname: str
    scope: str

    @property
    def func(self) -> Any: ...


# The names of fixtures that pytest makes from setup_class(), setUpClass() and so on.
_SETUP = re.compile(r"_(?:xunit|unittest)_(\w+)_fixture_(.*)")


class _Fixture:
    """A fixture from setup to teardown. Each parameter of a fixture has its own `_Fixture`."""

    def __init__(self, definition: _Definition) -> None:
        self.definition = definition
        self.is_wide = definition.scope != "function"
        self.keepers = count_keepers()
        # The objects it created that were alive after the first test that used it.
        self.kept: list[Record] = []

    def __str__(self) -> str:
        name = self.definition.argname
        setup = _SETUP.fullmatch(name)
        if setup is not None:
            return f"{setup[1]}() of {setup[2]}"
        return f"fixture {name!r} (scope: {self.definition.scope})"

    def place(self, root: Path) -> tuple[str, int]:
        """Return its file relative to `root`, and its first line, counted from 0."""
        code = getattr(self.definition.func, "__code__", None)
        if code is None:
            return "", 0
        path = Path(code.co_filename)
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        return name, code.co_firstlineno - 1


def _is_wide(fixture: _Fixture | None) -> bool:
    """Return whether the fixture may outlast the test."""
    return fixture is not None and fixture.is_wide


class _Watch:
    """Tracking of one test, which records whether a fixture or the test created each object."""

    def __init__(self, checks: _Checks) -> None:
        self.checks = checks
        self.tracker = tracking.begin()
        self.start = tracking.newest_serial(self.tracker)
        # Keepers up to this number may keep PyTorch tensors after the test; see `count_keepers`.
        self.keepers = count_keepers()
        # Pairs of a serial number and the creator from there on: a fixture, or None for the test.
        self.turns: list[tuple[int, _Fixture | None]] = [(self.start, None)]
        self.is_calling = False
        self.has_failed = False
        # The scope that was current before, and scopes that fixtures of wider scope have opened since.
        self.outer = current_dispose_scope()
        self.lasting_scopes: list[DisposeScope] = []
        # Measures live memory, if ``--tensor-memory`` is on.
        self.meter = Meter() if checks.shows_memory else None
        if self.meter is not None:
            self.meter.begin()
        self.limits: Limits | None = None
        if checks.live_count is not None or checks.nbytes is not None:
            self.limits = Limits(checks.live_count, checks.nbytes)
            self.limits.__enter__()
        self.history: History | None = None

    def begin_history(self) -> None:
        """Start the history of lines, if growth is checked."""
        if self.checks.growth is not None:
            self.history = History(since=snapshot())
            self.history.begin()

    def verdict(self, name: str) -> str | None:
        """Return the exceeded limits and the growing lines of the test `name` as text, or None."""
        texts = []
        text = None if self.limits is None else self.limits.verdict()
        if text is not None:
            texts.append(text)
        if self.history is not None and self.checks.growth is not None:
            if gc.isenabled():
                gc.collect()  # garbage is not a leak
            record = record_of(self.history, name, self.checks.growth)
            if record.is_leaking:
                tables = [f"{title}\n{report}" for title, report in record.parts]
                texts.append("\n\n".join([record.verdict, *tables]))  # pytest's summary shows the first line
        return "\n\n".join(texts) or None

    def close(self) -> None:
        self.stop()
        if self.meter is not None:
            self.meter.pause()
        tracking.end()

    def close_scopes(self) -> list[str]:
        """End the scopes that the test has left open, and return messages about them."""
        messages: list[str] = []
        while True:
            scope = current_dispose_scope()
            if scope is None or scope is self.outer or any(scope is each for each in self.lasting_scopes):
                return messages
            name = "without a name" if scope.name is None else repr(scope.name)
            messages.append(
                f"the scope {name} is still open after the test, and owns {len(scope)} disposables"
            )
            scope.dispose()

    def line(self, left: list[tuple[Record, Any]]) -> str:
        """Return the line of ``--tensor-memory``."""
        peak = 0 if self.meter is None else self.meter.peak_bytes
        kept = sum([kept.nbytes for kept in kept_by_each(left, others_than(left))])
        created = tracking.newest_serial(self.tracker) - self.start
        return (
            f"{created:,} created, at most {format_bytes(peak)} live, "
            f"{len(left):,} left ({format_bytes(kept)})"
        )

    def stop(self) -> None:
        """Stop listening."""
        history, self.history = self.history, None
        if history is not None:
            history.end()
        limits, self.limits = self.limits, None
        if limits is not None:
            limits.__exit__()

    def set_creator(self, fixture: _Fixture | None) -> _Fixture | None:
        """Record `fixture` as the creator from now on, and return the previous one."""
        before = self.turns[-1][1]
        self.turns.append((tracking.newest_serial(self.tracker), fixture))
        if self.limits is not None and _is_wide(fixture) != _is_wide(before):
            if _is_wide(fixture):
                self.limits.pause()
            else:
                self.limits.resume()
        return before

    def assign_to(self, fixture: _Fixture) -> None:
        """Record `fixture`, whose teardown has run, as the creator since the last change."""
        since, of = self.turns[-1]
        if of is None and not self.is_calling:
            self.turns[-1] = since, fixture
            self.set_creator(None)

    def creator_of(self, record: Record) -> _Fixture | None:
        """Return the fixture that created the object, or None for the test."""
        return self.turns[bisect_left(self.turns, record.serial, key=lambda turn: turn[0]) - 1][1]

    def alive(self, *, wide: bool) -> list[tuple[Record, Any]]:
        """Return the living objects of fixtures of wider scope if `wide`, else those of other creators."""
        return [item for item in alive_since(self.start) if _is_wide(self.creator_of(item[0])) == wide]


class _Guard:
    """Plugin that watches the tests of one run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.watch: _Watch | None = None
        # The fixtures that watched tests set up, and the ended ones.
        self.fixtures: dict[_Definition, _Fixture] = {}
        self.ended: list[_Fixture] = []
        # The outcome of the call, for each test whose teardown decides the result.
        self.awaited: dict[str, tuple[Any, Any, str]] = {}
        # On a worker of xdist: the reports of fixtures, for the controller.
        self.reports: list[dict[str, Any] | None] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Report the fixtures that ended with the test, after pytest has released their values."""
        result = yield
        ended, self.ended = self.ended, []
        for fixture in ended:
            self._judge_fixture(fixture)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Start to watch the test if its markers or the options request it."""
        self._close()
        checks = _Checks(item)
        watch = self.watch = _Watch(checks) if checks and checks.error is None else None
        try:
            return (yield)
        except BaseException:
            if watch is not None:
                watch.has_failed = True
            raise

    @pytest.hookimpl(specname="pytest_runtest_setup", tryfirst=True)
    def pytest_refuse_markers(self, item: pytest.Item) -> None:
        """Fail a test with invalid markers."""
        error = _Checks(item).error
        if error is not None:
            pytest.fail(error, pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Start the window of statistics, and check the limits after the test's code."""
        window = (getattr(item, "funcargs", None) or {}).get("dispose_statistics")
        if isinstance(window, StatisticsWindow):
            window.restart()
        watch = self.watch
        if watch is None:
            return (yield)
        watch.set_creator(None)
        watch.is_calling = True
        watch.begin_history()
        try:
            result = yield
            verdict = watch.verdict(item.name)
            if verdict is not None:
                pytest.fail(verdict, pytrace=False)
        except BaseException:
            watch.has_failed = True
            raise
        finally:
            watch.is_calling = False
            watch.stop()
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check for leaks after the teardown."""
        watch = self.watch
        if watch is None:
            return (yield)
        watch.set_creator(None)
        text: str | None = None
        try:
            result = yield
            _release_test_case(item)
            if watch.checks.shows_memory:
                item.user_properties.append((PROPERTY, watch.line(watch.alive(wide=False))))
            # A failed test is not checked: its traceback holds its variables.
            if not watch.has_failed and watch.checks.no_leaks:
                text = _leaks_of(item, watch)
                open_scopes = watch.close_scopes()
                if open_scopes:
                    text = "\n".join([*open_scopes, OPEN, *([text] if text else [])])
        finally:
            watch.close_scopes()
            for record, _ in watch.alive(wide=True):
                fixture = watch.creator_of(record)
                if fixture is not None and watch.checks.no_leaks:
                    fixture.kept.append(record)
            self._close()
        if text is not None:
            pytest.fail(text, pytrace=False)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: _Definition) -> Generator[None, object, object]:
        """Record the fixture as the creator during its setup."""
        watch = self.watch
        if watch is None:
            return (yield)
        fixture = self.fixtures[fixturedef] = _Fixture(fixturedef)
        before = watch.set_creator(fixture)
        outer = current_dispose_scope()
        try:
            return (yield)
        finally:
            watch.set_creator(before)
            inner = current_dispose_scope()
            if fixture.is_wide and inner is not None and inner is not outer:
                watch.lasting_scopes.append(inner)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a known leak (``xfail``) at the teardown, because the result is unknown before."""
        report = yield
        mark = item.get_closest_marker("xfail")
        if mark is None or (self.watch is None and call.when != "teardown"):
            return report
        if call.when == "call" and self.watch is not None and self.watch.checks.no_leaks:
            is_expected = report.passed and hasattr(report, "wasxfail")
            is_strict = report.failed and call.excinfo is None  # [XPASS(strict)]
            if is_expected or is_strict:
                self.awaited[item.nodeid] = (report.outcome, report.longrepr, getattr(report, "wasxfail", ""))
                report.outcome, report.longrepr = "passed", None
                report.__dict__.pop("wasxfail", None)
                report.__dict__[AWAITED] = True
        elif call.when == "teardown" and item.nodeid in self.awaited:
            outcome, longrepr, reason = self.awaited.pop(item.nodeid)
            if call.excinfo is None:  # the leak is fixed
                report.outcome, report.longrepr = outcome, longrepr
                if outcome == "passed":
                    report.__dict__["wasxfail"] = reason
        return report

    def pytest_fixture_post_finalizer(self, fixturedef: _Definition) -> None:
        """Record the fixture as the creator during its teardown."""
        fixture = self.fixtures.pop(fixturedef, None) or _Fixture(fixturedef)
        if self.watch is not None:
            self.watch.assign_to(fixture)
        if fixture.is_wide:
            self.ended.append(fixture)

    def _close(self) -> None:
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.close()

    def _judge_fixture(self, fixture: _Fixture) -> None:
        items = not_kept(left(lambda: alive_of(fixture.kept)), fixture.keepers)
        if not items:
            return
        found = Leftovers(items, others_than(items))
        path, line = fixture.place(self.config.rootpath)
        report = pytest.TestReport(
            nodeid=f"{path}::{fixture.definition.argname}",
            location=(path, line, str(fixture)),
            keywords={},
            outcome="failed",
            longrepr="\n".join([f"{fixture} left {found}:", *found.lines(), CURE]),
            when="teardown",
        )
        report.__dict__[FIXTURE] = True
        hook = self.config.hook
        if hasattr(self.config, "workeroutput"):
            # A worker of xdist may report only its own tests.
            self.reports.append(hook.pytest_report_to_serializable(config=self.config, report=report))
        else:
            hook.pytest_runtest_logreport(report=report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Send the reports of fixtures to the controller of xdist."""
        self._close()  # an interrupted test has no teardown
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["disposescope_fixtures"] = self.reports


OPEN = "Open scopes in a with statement, which ends them: `with new_dispose_scope():`"


def _release_test_case(item: pytest.Item) -> None:
    """Remove pytest's references to the unittest.TestCase instance and its attributes.

    The keywords of a test contain the attributes of its function. If the constructor of a base class wraps
    methods, as PyTorch's does, the attribute `__wrapped__` is a method that is bound to the instance.
    """
    for name, value in list(item.keywords.items()):
        if isinstance(value, MethodType):
            item.keywords[name] = value.__func__


def _leaks_of(item: pytest.Item, watch: _Watch) -> str | None:
    """Return the leaks of the test and its own fixtures as text."""
    if not watch.alive(wide=False):
        return None
    _release(item)
    items = not_kept(left(lambda: watch.alive(wide=False)), watch.keepers)
    if watch.checks.threshold and Leftovers(items, others_than(items)).nbytes <= watch.checks.threshold:
        return None
    by_creator: dict[_Fixture | None, list[tuple[Record, Any]]] = {}
    for record, x in items:
        by_creator.setdefault(watch.creator_of(record), []).append((record, x))
    lines: list[str] = []
    for fixture, of_it in by_creator.items():
        found = Leftovers(of_it, others_than(of_it))
        who = fixture or item.name
        lines += [f"{who} left {found}:", *found.lines()]
    return "\n".join([*lines, CURE]) if lines else None


def _release(item: pytest.Item) -> None:
    """Remove references that pytest would hold for this test until the session ends."""
    values = getattr(item, "funcargs", None)
    if values:
        values.clear()
    instance = vars(item).get("_instance")
    if instance is not None:
        vars(instance).clear()
    doctest = getattr(item, "dtest", None)
    if doctest is not None:
        doctest.globs.clear()
