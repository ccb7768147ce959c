"""Line tracers and interrupts: entering and ending a scope is one step that neither can cut in two."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest

import scopes
from scopes import Disposable, DisposeScope, current_dispose_scope, disposing, new_dispose_scope
from scopes.tracking import tracking
from scopes.tracking.listeners import Listener
from tests.interrupts import garbage_waits
from tests.things import Thing


@contextmanager
def by_settrace() -> Iterator[None]:
    def trace(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


@contextmanager
def by_monitoring() -> Iterator[None]:
    def line(code: CodeType, number: int) -> None:
        pass

    monitoring = sys.monitoring
    tool = monitoring.DEBUGGER_ID
    monitoring.use_tool_id(tool, "lines")
    monitoring.register_callback(tool, monitoring.events.LINE, line)
    monitoring.set_events(tool, monitoring.events.LINE)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.LINE, None)
        monitoring.free_tool_id(tool)


TRACERS = [
    by_settrace,
    pytest.param(
        by_monitoring,
        marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12"),
    ),
]


@pytest.mark.parametrize("tracer", TRACERS)
def test_threads_that_share_a_scope_under_a_line_tracer_lose_none(
    tracer, window, fast_thread_switches
) -> None:
    with tracer():
        for _ in range(10):
            with new_dispose_scope("shared") as scope:
                contexts = [contextvars.copy_context() for _ in range(4)]
                with ThreadPoolExecutor(4) as pool:
                    made = [
                        thing
                        for things in pool.map(
                            lambda c: c.run(lambda: [Thing() for _ in range(50)]), contexts
                        )
                        for thing in things
                    ]
                assert len(scope) == 200
            assert not any(thing.whole for thing in made)
    assert window().disposed_in_scope_count == window().created_in_scope_count == 2000


@pytest.mark.parametrize("tracer", TRACERS)
def test_asyncio_to_thread_under_a_line_tracer(tracer, window, fast_thread_switches) -> None:
    async def main() -> None:
        with new_dispose_scope() as scope:
            await asyncio.gather(*(asyncio.to_thread(lambda: [Thing() for _ in range(20)]) for _ in range(8)))
            kept = [Thing()]
            assert scope.disposables_view[-1] is kept[0]

    with tracer():
        for _ in range(5):
            asyncio.run(main())
    assert window().live_count == 0


class Interruption:
    """Raises KeyboardInterrupt at the n-th moment at which Python looks for signals."""

    def __init__(self, moment: int) -> None:
        self.left = moment

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        # After a call of C code, and at the beginning of a function.
        if event in ("call", "c_return") and frame.f_code.co_name != "test_an_interrupt_at_any_moment":
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


class Lease(Disposable):
    """Without a finalizer: what is raised in one, Python drops."""

    def __init__(self) -> None:
        super().__init__()

    def _release(self) -> None:
        pass


@disposing
def both(x: Lease) -> list[Lease]:
    return [Lease(), x]


@disposing
def several() -> Iterator[Lease]:
    for _ in range(2):
        yield Lease()


def step(ended: list[DisposeScope]) -> None:
    with new_dispose_scope("outer") as outer:
        ended.append(outer)
        x = Lease()
        outer.attach(both(x))
        for y in several():
            outer.move_to_outer([y])
        outer.dispose_everything_but(x)
    ended.append(outer)


def test_an_interrupt_at_any_moment_leaves_no_scope_current_and_nothing_counted(window) -> None:
    for moment in range(1, 1000):
        ended: list[DisposeScope] = []
        with garbage_waits():
            sys.setprofile(Interruption(moment))
            try:
                step(ended)
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
        assert current_dispose_scope() is None, moment
        assert window().live_count == 0, moment
        if len(ended) == 2:
            break
    assert 12 < moment < 999


def test_an_observer_that_fails_at_the_beginning_leaves_no_scope_current() -> None:
    class Failing(Listener):
        def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
            raise KeyboardInterrupt

    with scopes.track():
        tracker = tracking.current.tracker
        assert tracker is not None
        tracker.listeners += (Failing(),)
        with pytest.raises(KeyboardInterrupt):
            new_dispose_scope("never")
        tracker.listeners = ()
        assert current_dispose_scope() is None
