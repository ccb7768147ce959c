"""Assertions for tests: counts of created and disposed tensors, and no leaks."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from types import TracebackType
from typing import Any, Never, ParamSpec, Self, TypeVar, cast

from scopes._shared.naming import set_module
from scopes.core.figures import FIGURES, DisposeStatistics
from scopes.core.statistics import StatisticsView
from scopes.reports.leaks import Snapshot, snapshot
from scopes.testing.leftovers import Leftovers, alive_since, left, others_than
from scopes.tracking import tracking

_P = ParamSpec("_P")
_R = TypeVar("_R")


@set_module("scopes.testing")
class StatisticsWindow(StatisticsView):
    """The counts since the window was created or restarted. Each access returns the current counts.

    A tensor that is older than the window and is disposed in it counts as disposed. So `live_count` may be
    negative. If the collector is enabled, a window starts with a collection, so that garbage of earlier code
    does not count. After ``statistics.reset()`` a window must be restarted.

    Examples
    --------
    >>> import tensor
    >>> from scopes.testing import StatisticsWindow
    >>> window = StatisticsWindow()
    >>> x = tensor.ones((2,))
    >>> window.created_outside_scope_count, window.live_count
    (1, 1)
    """

    __slots__ = ("_start",)

    def __init__(self) -> None:
        super().__init__()
        self.restart()

    def restart(self) -> None:
        """Start again with all figures at 0.

        Examples
        --------
        >>> import tensor
        >>> from scopes.testing import StatisticsWindow
        >>> window = StatisticsWindow()
        >>> x = tensor.ones((2,))
        >>> window.restart()
        >>> window.live_count
        0
        """
        _collect()
        self._start = super().snapshot()

    def snapshot(self) -> DisposeStatistics:
        """Return a frozen copy of the current counts.

        Examples
        --------
        >>> from scopes.testing import StatisticsWindow
        >>> StatisticsWindow().snapshot().live_count
        0
        """
        return super().snapshot() - self._start


@set_module("scopes.testing")
class assert_dispose_counts:  # noqa: N801  # it is called like a function
    """Assert how many tensors a block, or given figures, created, disposed, attached and detached.

    It compares only the figures that you name. They count the whole process, other threads too. If the
    collector is enabled, it collects garbage at both ends of a block, so that tensors in an unreachable
    reference cycle count as disposed. If the block raises, nothing is compared.

    Parameters
    ----------
    figures
        A snapshot, a difference of two, or live figures, which are compared immediately. Without figures,
        use the object in a ``with`` statement.
    live_count, created_outside_scope_count, disposed_outside_scope_count, created_in_scope_count, \
    disposed_in_scope_count, attached_to_scope_count, detached_from_scope_count, finalized_count
        The expected figures; see `DisposeStatistics`.

    Raises
    ------
    AssertionError
        If a figure differs.
    TypeError
        If you name no figure.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope, statistics
    >>> from scopes.testing import assert_dispose_counts
    >>> with assert_dispose_counts(created_in_scope_count=2, live_count=0):
    ...     with new_dispose_scope():
    ...         y = tensor.ones((2,)) * 2
    >>> before = statistics.snapshot()
    >>> x = tensor.ones((2,))
    >>> assert_dispose_counts(statistics.snapshot() - before, live_count=0)
    Traceback (most recent call last):
        ...
    AssertionError: live_count is 1, but expected 0
    ...
    """

    __slots__ = ("_expected", "_is_compared", "_window")

    def __init__(
        self,
        figures: DisposeStatistics | StatisticsView | None = None,
        /,
        *,
        live_count: int | None = None,
        created_outside_scope_count: int | None = None,
        disposed_outside_scope_count: int | None = None,
        created_in_scope_count: int | None = None,
        disposed_in_scope_count: int | None = None,
        attached_to_scope_count: int | None = None,
        detached_from_scope_count: int | None = None,
        finalized_count: int | None = None,
        **unknown: Never,
    ) -> None:
        __tracebackhide__ = True  # pytest shows the user's line
        given = {
            "live_count": live_count,
            "created_outside_scope_count": created_outside_scope_count,
            "disposed_outside_scope_count": disposed_outside_scope_count,
            "created_in_scope_count": created_in_scope_count,
            "disposed_in_scope_count": disposed_in_scope_count,
            "attached_to_scope_count": attached_to_scope_count,
            "detached_from_scope_count": detached_from_scope_count,
            "finalized_count": finalized_count,
        }
        for name in unknown:
            close = get_close_matches(name, given, n=1, cutoff=0.4)
            meant = f"did you mean {close[0]}? " if close else ""
            raise TypeError(
                f"assert_dispose_counts() has no {name}=: {meant}The counts are {', '.join(given)}"
            )
        self._expected = {name: count for name, count in given.items() if count is not None}
        if not self._expected:
            raise TypeError(
                "assert_dispose_counts() requires an expected count: write for example `with "
                f"assert_dispose_counts(live_count=0):`. The counts are live_count, {', '.join(FIGURES)}"
            )
        self._window: StatisticsWindow | None = None
        if figures is None:
            self._is_compared = False
        elif isinstance(figures, (DisposeStatistics, StatisticsView)):
            self._is_compared = True
            self._compare(figures if isinstance(figures, DisposeStatistics) else figures.snapshot())
        else:
            raise TypeError(
                "the first argument of assert_dispose_counts() must be statistics, not "
                f"{type(figures).__name__}: pass statistics.snapshot() - before or the fixture "
                "dispose_statistics, or write `with assert_dispose_counts(live_count=0):`"
            )

    def __enter__(self) -> StatisticsWindow:
        if self._is_compared:
            raise RuntimeError(
                "this assert_dispose_counts() has already compared its statistics: write a new `with "
                "assert_dispose_counts(live_count=0):`, without statistics, for each block"
            )
        self._is_compared = True
        self._window = StatisticsWindow()
        return self._window

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        if self._window is not None and kind is None:
            _collect()
            self._compare(self._window.snapshot())

    def _compare(self, figures: DisposeStatistics) -> None:
        __tracebackhide__ = True
        wrong = [
            f"{name} is {getattr(figures, name)}, but expected {count}"
            for name, count in self._expected.items()
            if getattr(figures, name) != count
        ]
        if wrong:
            raise AssertionError("\n".join([*wrong, f"All counts: {figures}"]))

    def __del__(self) -> None:
        if not getattr(self, "_is_compared", True):  # there is none after a TypeError
            warnings.warn(
                "assert_dispose_counts() compared nothing, because it got no statistics and is not in a with "
                "statement: write `with assert_dispose_counts(...):`, or pass statistics as the first "
                "argument",
                RuntimeWarning,
                stacklevel=2,
            )


@set_module("scopes.testing")
class assert_no_leaks:  # noqa: N801  # it is called like a function
    """Assert that no disposable created in a block, or in a call of a decorated function, is alive after it.

    Variables of the code around the block are alive after it. So let the block call a function, or decorate
    the test, which may be an ``async def``. If the collector is enabled, it collects garbage first. Tensors
    that other threads and tasks create during the block count too. If the block raises, nothing is checked.

    Parameters
    ----------
    depth
        The number of your lines listed for each tensor: the line that created it, its caller, and so on.

    Raises
    ------
    AssertionError
        If tensors are left. The message lists the lines that created them, and their scopes.

    Examples
    --------
    >>> import tensor
    >>> from scopes.testing import assert_no_leaks
    >>> cache = []
    >>> def remember():
    ...     cache.append(tensor.ones((250,)))
    >>> with assert_no_leaks():
    ...     remember()
    Traceback (most recent call last):
        ...
    AssertionError: the block left 1 disposable, 1000 bytes:
    ...
    """

    __slots__ = ("_start", "depth")

    def __init__(self, depth: int = 1) -> None:
        self.depth: int = tracking.track(depth).depth
        self._start: Snapshot | None = None

    def __enter__(self) -> Self:
        if self._start is not None:
            raise RuntimeError(
                "this assert_no_leaks() is already open: write a new `with assert_no_leaks():` for each block"
            )
        tracking.begin(self.depth)
        self._start = snapshot()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        start, self._start = self._start, None
        if start is None:
            return
        try:
            items = left(lambda: alive_since(start.serial)) if kind is None else []
            found = Leftovers(items, others_than(items)) if items else None
            del items  # a stored error would keep them alive
            if found is not None:
                raise AssertionError("\n".join([f"the block left {found}:", *found.lines(), CURE]))
        finally:
            tracking.end()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return `function` with a check after each call; an ``async def`` is checked at its end."""
        depth = self.depth
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"assert_no_leaks() does not support generator functions, such as {function.__name__}, "
                "because they return before their body runs: write `with assert_no_leaks():` around the loop"
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: _P.args, **kwargs: _P.kwargs) -> Any:
                with assert_no_leaks(depth):
                    return await function(*args, **kwargs)

            return cast("Callable[_P, _R]", awaited)

        @wraps(function)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with assert_no_leaks(depth):
                return function(*args, **kwargs)

        return called


CURE = (
    "Create it inside a dispose scope that ends (`with new_dispose_scope():`), call its dispose(), or delete "
    "all references to it. `disposescope run program.py` also lists the objects that refer to it"
)


def _collect() -> None:
    if gc.isenabled():
        gc.collect()
