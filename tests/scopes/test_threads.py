"""Many threads and tasks at once: no object in a foreign scope, figures exact to the last count."""

import asyncio
import contextvars
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import tensor
from scopes import (
    Disposable,
    DisposeScope,
    DisposeStatistics,
    ScopeDisposedError,
    TensorDisposedError,
    current_dispose_scope,
    disposing,
    new_dispose_scope,
    statistics,
)
from tests.things import Channel, Thing

THREADS = 16


def on_threads(work: Callable[[int], object], count: int = THREADS) -> list[object]:
    start = threading.Barrier(count)

    def run(n):
        start.wait()
        return work(n)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class Model:
    """What one worker should have counted."""

    def __init__(self):
        self.created_in = self.created_outside = self.ended_in = self.ended_outside = 0
        self.attached = self.detached = 0

    def __add__(self, other):
        total = Model()
        total.__dict__ = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return total

    def check(self, figures):
        assert figures.created_in_scope_count == self.created_in
        assert figures.created_outside_scope_count == self.created_outside
        assert figures.disposed_in_scope_count == self.ended_in
        assert figures.disposed_outside_scope_count == self.ended_outside
        assert figures.attached_to_scope_count == self.attached
        assert figures.detached_from_scope_count == self.detached
        assert figures.live_count == 0


def story(model, chance, depth):
    """Nested scopes with all that can happen in them; yields where others may run."""
    outer = current_dispose_scope()
    early = Thing()
    if outer is None:
        model.created_outside += 1
    else:
        model.created_in += 1
    with new_dispose_scope() as scope:
        yield
        things = [Thing(), Thing(), tensor.ones((2,))]
        model.created_in += 3
        assert scope.disposables_view == tuple(things)
        yield
        assert current_dispose_scope() is scope
        attached = chance.random() < 0.5
        if attached:
            scope.attach(early)
            model.attached += 1
        if chance.random() < 0.5:
            scope.detach(things[0]).dispose()
            model.detached += 1
            model.ended_outside += 1
        else:
            things[0].dispose()
            model.ended_in += 1
        yield
        if depth:
            yield from story(model, chance, depth - 1)
            assert current_dispose_scope() is scope
        if chance.random() < 0.5:
            del things[1]
        yield
    model.ended_in += 2
    assert current_dispose_scope() is outer
    early.dispose()
    if outer is None and not attached:
        model.ended_outside += 1
    else:
        model.ended_in += 1


def test_sixteen_threads_with_nested_scopes_count_exactly(window, fast_thread_switches) -> None:
    def work(n):
        model, chance = Model(), random.Random(n)
        for _ in range(20):
            for _ in story(model, chance, depth=3):
                pass
        return model

    sum(on_threads(work), Model()).check(window())


def test_a_thousand_tasks_with_nested_scopes_count_exactly(window) -> None:
    async def work(n):
        model, chance = Model(), random.Random(n)
        for _ in story(model, chance, depth=3):
            await asyncio.sleep(0)
        return model

    async def main():
        return await asyncio.gather(*(work(n) for n in range(1000)))

    sum(asyncio.run(main()), Model()).check(window())


def test_tasks_on_sixteen_threads_count_exactly(window, fast_thread_switches) -> None:
    async def work(n):
        model, chance = Model(), random.Random(n)
        for _ in story(model, chance, depth=2):
            await asyncio.sleep(0)
        return model

    async def main(n):
        return sum(await asyncio.gather(*(work(10 * n + k) for k in range(10))), Model())

    sum(on_threads(lambda n: asyncio.run(main(n))), Model()).check(window())


def test_objects_that_end_on_other_threads_count_exactly(window, fast_thread_switches) -> None:
    def work(n):
        with new_dispose_scope():
            return [thing.detach_from_dispose_scope() for thing in [Thing() for _ in range(200)]]

    heaps = on_threads(work)
    on_threads(lambda n: [thing.dispose() for heap in heaps for thing in heap[n::THREADS]])
    assert window() == DisposeStatistics(
        created_in_scope_count=200 * THREADS,
        detached_from_scope_count=200 * THREADS,
        disposed_outside_scope_count=200 * THREADS,
    )


def test_one_scope_that_all_threads_attach_to_and_take_from(window, fast_thread_switches) -> None:
    with new_dispose_scope() as shared:
        things = [shared.detach(Thing()) for _ in range(100)]
        before = window()

        def work(n):
            order = random.Random(n).sample(things, len(things))
            with new_dispose_scope() as mine:
                for thing in order:
                    mine.attach(thing)
                    mine.move_to_other(shared, thing)

        on_threads(work)
        figures = window() - before
        assert all(thing.whole for thing in things if thing in shared)
        assert figures.detached_from_scope_count == 0
        assert figures.attached_to_scope_count >= len(things)
    things.clear()
    assert window().live_count == 0


def test_disposing_and_moving_the_same_objects_ends_each_once(window, fast_thread_switches) -> None:
    for _ in range(10):
        with new_dispose_scope() as outer, new_dispose_scope() as inner:
            things = [Thing() for _ in range(100)]

            def work(n, inner=inner, outer=outer, things=things):
                for thing in things:
                    if n == 0:
                        thing.dispose()
                    for _ in range(5):
                        inner.move_to_outer(thing)
                        outer.move_to_other(inner, thing)

            on_threads(work, 4)
            assert not any(thing.whole for thing in things)
    figures = window()
    assert figures.disposed_in_scope_count == figures.created_in_scope_count == 1000
    assert figures.disposed_outside_scope_count == 0


def test_a_scope_that_ends_while_threads_register_loses_none(window, fast_thread_switches) -> None:
    def end_one_while_threads_register():
        scope = new_dispose_scope()
        contexts = [contextvars.copy_context() for _ in range(4)]

        def work(n):
            return contexts[n].run(lambda: [Thing() for _ in range(100)])

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(work, n) for n in range(4)]
            scope.dispose()
            things = [thing for future in running for thing in future.result()]
        # Who came before the end ended with it; who came after has no owner.
        assert all(thing.whole == (thing._ended_scope is None) for thing in things)

    for _ in range(20):
        end_one_while_threads_register()
    figures = window()
    assert figures.live_count == 0
    assert figures.created_in_scope_count == figures.disposed_in_scope_count


def test_a_resource_that_threads_take_from_each_other_is_closed_by_each_last_owner(
    fast_thread_switches,
) -> None:
    for _ in range(20):
        channel = Channel()

        def work(n, channel=channel):
            with new_dispose_scope() as scope:
                scope.attach(channel)

        on_threads(work, 4)
        assert 1 <= channel.closed <= 4


def test_a_generator_may_go_from_thread_to_thread() -> None:
    @disposing
    def things():
        mine = Thing()
        while True:
            assert mine in current_dispose_scope()
            yield Thing()

    iterator, lock = things(), threading.Lock()

    def work(n):
        for _ in range(20):
            with new_dispose_scope() as scope, lock:
                assert next(iterator) in scope
                assert current_dispose_scope() is scope

    on_threads(work)
    iterator.close()


def test_figures_read_while_others_count_are_never_negative(fast_thread_switches) -> None:
    stop = threading.Event()

    def work(n):
        if n == 0:
            for _ in range(300):
                figures = statistics.snapshot()
                assert figures.live_count >= 0
                assert figures.finalized_count <= (
                    figures.disposed_in_scope_count + figures.disposed_outside_scope_count
                )
            stop.set()
            return
        while not stop.is_set():
            with new_dispose_scope():
                Thing()
            Thing()

    on_threads(work, 4)


class Once(Disposable):
    """Says how often it was released."""

    __slots__ = ("releases",)

    def __init__(self) -> None:
        self.releases: list[int] = []
        super().__init__()

    def _release(self) -> None:
        self.releases.append(1)


def change_what_all_share(n: int, things: list[Once], scopes: list[DisposeScope]) -> None:
    chance = random.Random(n)
    for _ in range(300):
        k, m = chance.randrange(len(things)), chance.randrange(len(scopes))
        thing, scope, other = things[k], scopes[m], chance.choice(scopes)
        try:
            match chance.randrange(12):
                case 0:
                    thing.dispose()
                case 1:
                    things[k] = Once()
                case 2:
                    scopes[m] = contextvars.copy_context().run(new_dispose_scope)
                    scope.dispose()
                case 3:
                    scope.dispose_everything_but(thing)
                case 4:
                    scope.attach(*things[k : k + 5])
                case 5:
                    scope.detach(thing)
                case 6:
                    thing.detach_from_dispose_scope()
                case 7:
                    thing.move_to_outer_dispose_scope()
                case 8:
                    thing.move_to_other_dispose_scope(other)
                case 9:
                    DisposeScope.replace_with(thing, things[chance.randrange(len(things))])
                case 10:
                    assert all(isinstance(x, Once) for x in scope.disposables_view)
                case _:
                    scope.move_to_other(other, things[: k + 1])
        except (ScopeDisposedError, TensorDisposedError):
            pass  # another thread was quicker


def test_sixteen_threads_that_change_the_same_objects_and_scopes_end_each_once(
    window, fast_thread_switches
) -> None:
    all_things: list[Once] = []
    context = contextvars.copy_context()

    class Kept(list[Once]):
        def __setitem__(self, key, thing):
            all_things.append(thing)
            super().__setitem__(key, thing)

    things = Kept([Once() for _ in range(40)])
    all_things += things
    scopes = [context.run(new_dispose_scope) for _ in range(6)]
    on_threads(lambda n: change_what_all_share(n, things, scopes))
    for scope in scopes:
        if not scope.is_disposed:
            assert {id(x) for x in scope.disposables_view} == {id(x) for x in all_things if x in scope}
            assert len(scope) == len(scope.disposables_view)
    alive = [x for x in all_things if not x.is_invalid]
    assert all(x.releases == [] for x in alive)
    assert window().live_count == len(alive)
    for scope in scopes:
        scope.dispose()
    for x in all_things:
        x.dispose()
    assert all(x.releases == [1] for x in all_things)
    figures = window()
    assert (figures.live_count, figures.finalized_count) == (0, 0)
    assert figures.disposed_in_scope_count + figures.disposed_outside_scope_count == len(all_things)


@pytest.mark.soak
def test_threads_count_exactly_for_minutes(window, fast_thread_switches) -> None:
    def work(n):
        model, chance = Model(), random.Random(n)
        for _ in range(10_000):
            for _ in story(model, chance, depth=4):
                pass
        return model

    sum(on_threads(work), Model()).check(window())
