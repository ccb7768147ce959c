import asyncio
import contextvars
import threading

import tensor
from scopes import current_dispose_scope, new_dispose_scope
from tests.things import Thing
from tests.threads import NEW_THREADS_INHERIT_CONTEXT


def in_thread(function, context=None):
    result = []
    run = function if context is None else (lambda: context.run(function))
    thread = threading.Thread(target=lambda: result.append(run()))
    thread.start()
    thread.join()
    return result[0]


def test_a_new_thread_has_no_scope_unless_it_inherits_the_context() -> None:
    with new_dispose_scope() as scope:
        expected = scope if NEW_THREADS_INHERIT_CONTEXT else None
        assert in_thread(current_dispose_scope) is expected
        assert in_thread(lambda: tensor.ones((1,))).owning_dispose_scope is expected


def test_a_scope_of_a_thread_is_not_seen_by_others() -> None:
    opened, looked = threading.Event(), threading.Event()

    def work():
        with new_dispose_scope() as scope:
            opened.set()
            assert looked.wait(300)
            return current_dispose_scope() is scope

    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    assert opened.wait(300)
    assert current_dispose_scope() is None
    looked.set()
    thread.join()
    assert results == [True]


def test_a_scope_disposed_from_another_thread_is_no_longer_current() -> None:
    with new_dispose_scope() as outer:
        inner = new_dispose_scope()
        x = tensor.ones((1,))
        in_thread(inner.dispose)
        assert x.is_invalid
        assert current_dispose_scope() is outer
        assert tensor.ones((1,)).owning_dispose_scope is outer


def test_a_thread_with_a_copied_context_registers_with_its_parents_scope() -> None:
    with new_dispose_scope() as scope:
        x = in_thread(lambda: tensor.ones((1,)), contextvars.copy_context())
        assert x in scope
    assert x.is_invalid


def test_a_thread_that_outlives_its_parents_scope_registers_with_the_next_one_outward() -> None:
    with new_dispose_scope() as outer:
        with new_dispose_scope():
            context = contextvars.copy_context()
        assert in_thread(lambda: tensor.ones((1,)), context).owning_dispose_scope is outer
    assert in_thread(lambda: tensor.ones((1,)), context).owning_dispose_scope is None


def test_a_task_inherits_its_parents_scope_and_keeps_its_own_to_itself() -> None:
    async def child(parent):
        assert current_dispose_scope() is parent
        with new_dispose_scope() as scope:
            await asyncio.sleep(0)
            assert current_dispose_scope() is scope
            assert scope.outer_scope is parent

    async def main():
        with new_dispose_scope() as parent:
            await asyncio.gather(child(parent), child(parent))
            assert current_dispose_scope() is parent

    asyncio.run(main())


def test_a_task_that_outlives_its_parents_scope_registers_with_the_next_one_outward() -> None:
    async def child(ended):
        await ended.wait()
        return Thing()

    async def main():
        ended = asyncio.Event()
        with new_dispose_scope() as outer:
            with new_dispose_scope():
                task = asyncio.create_task(child(ended))
                await asyncio.sleep(0)
            ended.set()
            thing = await task
            assert thing in outer
        with new_dispose_scope():
            ended.clear()
            task = asyncio.create_task(child(ended))
            await asyncio.sleep(0)
        ended.set()
        assert (await task).owning_dispose_scope is None

    asyncio.run(main())


def test_a_scope_disposed_from_another_task_is_no_longer_current() -> None:
    async def end(scope):
        scope.dispose()

    async def main():
        with new_dispose_scope() as outer:
            inner = new_dispose_scope()
            await asyncio.create_task(end(inner))
            assert current_dispose_scope() is outer

    asyncio.run(main())


def test_to_thread_takes_the_scope_along() -> None:
    async def main():
        with new_dispose_scope() as scope:
            thing = await asyncio.to_thread(Thing)
            assert thing in scope

    asyncio.run(main())
