import asyncio
import contextlib
import functools
import gc
import inspect
import weakref
from pathlib import Path

import pytest

import tensor
from scopes import current_dispose_scope, disposing, new_dispose_scope
from tests.things import Thing

# Functions.


def test_what_a_function_returns_moves_to_the_callers_scope_and_the_rest_is_disposed() -> None:
    kept = []

    @disposing
    def work(x):
        kept.append(x + 1)
        return {"y": x * 2}

    with new_dispose_scope() as scope:
        x = tensor.ones((1,))
        y = work(x)["y"]
        assert y in scope
        assert kept[0].is_invalid
        assert x in scope


def test_disposing_with_arguments_is_the_call_itself() -> None:
    with new_dispose_scope() as scope:
        x = disposing(tensor.ones, (2,))
        assert x in scope
    assert disposing(dict, a=1) == {"a": 1}


def test_a_result_without_an_outer_scope_is_detached(window) -> None:
    thing = disposing(Thing)()
    assert thing.whole
    assert thing.owning_dispose_scope is None
    assert window().detached_from_scope_count == 1


def test_a_result_that_is_an_argument_stays_with_its_owner() -> None:
    @disposing
    def same(x):
        return x

    stray = Thing()
    with new_dispose_scope():
        assert same(stray) is stray
        assert stray.owning_dispose_scope is None


def test_an_error_disposes_all_and_passes_on() -> None:
    kept = []

    @disposing
    def fail():
        kept.append(Thing())
        raise ValueError("as it was")

    with pytest.raises(ValueError, match="as it was"):
        fail()
    assert not kept[0].whole
    assert current_dispose_scope() is None


def test_the_scope_bears_the_functions_name() -> None:
    @disposing
    def named():
        return current_dispose_scope().name

    assert named().endswith("named")
    assert disposing(functools.partial(lambda: current_dispose_scope().name))() == "partial"


def test_methods_static_methods_and_class_methods() -> None:
    class Model:
        @disposing
        def forward(self, x):
            """Double."""
            return self, x + x

        @staticmethod
        @disposing
        def static(x):
            return x + x

        @classmethod
        @disposing
        def of_class(cls):
            return cls

    with new_dispose_scope() as scope:
        model = Model()
        owner, y = model.forward(tensor.ones((1,)))
        assert owner is model
        assert y in scope
        assert Model.static(y) in scope
        assert Model.of_class() is Model
    assert Model.forward.__name__ == "forward"
    assert Model.forward.__doc__ == "Double."


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_disposing_above_staticmethod_says_to_swap_them(kind) -> None:
    with pytest.raises(TypeError, match=f"write @disposing below @{kind.__name__}"):
        disposing(kind(len))


def test_disposing_of_a_value_that_is_not_a_function_says_so() -> None:
    with pytest.raises(TypeError, match="takes a function, not int: write @disposing above a def"):
        disposing(3)


def test_disposing_with_parentheses_and_no_function_says_to_omit_them() -> None:
    with pytest.raises(TypeError, match="and got none: write @disposing above a def, without parentheses"):
        disposing()


def test_each_wrapper_is_of_its_functions_kind() -> None:
    def function():
        return None

    async def coroutine():
        return None

    def generator():
        yield

    async def async_generator():
        yield

    class Callable:
        async def __call__(self):
            return None

    in_scope = disposing(function)
    assert not inspect.isgeneratorfunction(in_scope)
    assert inspect.iscoroutinefunction(disposing(coroutine))
    assert inspect.isgeneratorfunction(disposing(generator))
    assert inspect.isasyncgenfunction(disposing(async_generator))
    assert inspect.iscoroutinefunction(disposing(Callable()))
    assert inspect.iscoroutinefunction(disposing(functools.partial(coroutine)))


# Coroutines.


def test_a_coroutine_has_a_scope_per_task() -> None:
    @disposing
    async def work(n):
        mine = current_dispose_scope()
        kept = Thing()
        for _ in range(n):
            await asyncio.sleep(0)
            assert current_dispose_scope() is mine
            assert kept in mine
        return Thing(), kept

    async def main():
        with new_dispose_scope() as scope:
            results = await asyncio.gather(*(work(n) for n in range(20)))
            assert all(thing in scope for pair in results for thing in pair)
            thing, _ = await work(3)
            assert thing in scope
            assert current_dispose_scope() is scope

    asyncio.run(main())


def test_a_cancelled_coroutine_disposes_its_tensors() -> None:
    kept = []

    @disposing
    async def work():
        kept.append(Thing())
        await asyncio.Event().wait()

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not kept[0].whole


# Generators.


def test_each_yielded_value_and_the_returned_one_move_to_the_consumer() -> None:
    @disposing
    def things():
        yield Thing(), [Thing()]
        yield Thing()
        return Thing()

    def consumer():
        last = yield from things()
        return last

    with new_dispose_scope() as scope:
        iterator = consumer()
        a, [b] = next(iterator)
        c = next(iterator)
        with pytest.raises(StopIteration) as stop:
            next(iterator)
        assert all(thing in scope for thing in (a, b, c, stop.value.value))


def test_a_generator_keeps_its_own_and_suspends_its_scope_at_each_yield() -> None:
    held = []

    @disposing
    def things():
        held.append(Thing())
        for n in range(3):
            assert held[0] in current_dispose_scope()
            yield n
            assert held[0].whole

    with new_dispose_scope() as scope:
        for _ in things():
            assert current_dispose_scope() is scope
            mine = Thing()
            assert mine in scope
        assert not held[0].whole
        assert mine.whole


def test_a_generator_yields_into_the_scope_that_is_current_then() -> None:
    @disposing
    def things():
        while True:
            yield Thing()

    iterator = things()
    with new_dispose_scope() as first:
        a = next(iterator)
        assert a in first
    with new_dispose_scope(), new_dispose_scope() as second:
        b = next(iterator)
        assert b in second
    c = next(iterator)
    assert (a.whole, b.whole, c.whole) == (False, False, True)
    assert c.owning_dispose_scope is None
    iterator.close()


def test_a_scope_open_at_a_yield_is_suspended_too() -> None:
    held = []

    @disposing
    def things():
        with new_dispose_scope() as inner:
            held.append(Thing())
            yield Thing()
            assert current_dispose_scope() is inner
            assert held[0] in inner
            yield Thing()

    with new_dispose_scope() as scope:
        for thing in things():
            assert current_dispose_scope() is scope
            assert thing in scope
        assert not held[0].whole


def test_values_and_errors_sent_to_a_generator_arrive_in_the_body() -> None:
    caught = []

    @disposing
    def echo():
        got = None
        while True:
            try:
                got = yield got
            except ValueError as error:
                assert current_dispose_scope() is not None
                caught.append(error)
                got = "caught"

    iterator = echo()
    next(iterator)
    assert iterator.send("a") == "a"
    error = ValueError()
    assert iterator.throw(error) == "caught"
    assert caught == [error]
    assert iterator.send("b") == "b"
    assert current_dispose_scope() is None
    iterator.close()


def test_close_ends_the_body_and_disposes_its_scope() -> None:
    ended = []

    @disposing
    def things():
        mine = Thing()
        try:
            yield
        finally:
            ended.append((mine, mine.whole))

    iterator = things()
    next(iterator)
    with new_dispose_scope() as scope:
        iterator.close()
        assert current_dispose_scope() is scope
    [(mine, was_whole)] = ended
    assert was_whole
    assert not mine.whole


def test_a_generator_that_ignores_its_close_raises_as_without_a_scope() -> None:
    @disposing
    def stubborn():
        while True:
            try:
                yield
            except GeneratorExit:
                yield "still here"
                return

    iterator = stubborn()
    next(iterator)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        iterator.close()
    with pytest.raises(StopIteration):
        next(iterator)


def test_a_dropped_generator_changes_nothing_for_the_running_code() -> None:
    held = []

    @disposing
    def things():
        held.append(Thing())
        new_dispose_scope("left open")
        yield

    iterator = things()
    next(iterator)
    with new_dispose_scope() as scope:
        del iterator
        gc.collect()
        assert current_dispose_scope() is scope
        assert not held[0].whole


def test_a_generator_that_never_starts_opens_no_scope() -> None:
    @disposing
    def things():
        yield Thing()

    iterator = things()
    assert current_dispose_scope() is None
    del iterator


def test_an_error_in_the_body_disposes_and_passes_on() -> None:
    held = []

    @disposing
    def things():
        held.append(Thing())
        yield
        raise ValueError("as it was")

    iterator = things()
    next(iterator)
    with pytest.raises(ValueError, match="as it was"):
        next(iterator)
    assert not held[0].whole
    assert current_dispose_scope() is None


def test_nested_generators_hand_their_items_outward() -> None:
    held = []

    @disposing
    def inner():
        for _ in range(2):
            held.append(Thing())
            yield Thing()

    @disposing
    def outer():
        yield from inner()
        for thing in inner():
            yield thing, Thing()

    with new_dispose_scope() as scope:
        for item in outer():
            things = [item] if isinstance(item, Thing) else item
            assert all(thing in scope for thing in things)
            assert current_dispose_scope() is scope
        assert not any(thing.whole for thing in held)


def test_interleaved_generators_do_not_mix() -> None:
    @disposing
    def things(n):
        mine = Thing()
        for _ in range(n):
            assert mine in current_dispose_scope()
            yield Thing()

    with new_dispose_scope() as scope:
        for pair in zip(things(5), things(5), things(7), strict=False):
            assert all(thing in scope for thing in pair)


def test_a_body_that_ends_its_own_scope_continues_outside() -> None:
    @disposing
    def odd():
        current_dispose_scope().dispose()
        while True:
            yield current_dispose_scope(), Thing()

    with new_dispose_scope() as first:
        iterator = odd()
        inside, a = next(iterator)
        assert inside is first
        with new_dispose_scope() as second:
            inside, b = next(iterator)
            assert inside is second
            assert b in second
        assert a in first
        iterator.close()


def test_a_failed_generator_holds_neither_arguments_nor_sent_values() -> None:
    @disposing
    def fail(thing):
        del thing
        yield
        raise ValueError

    gc.disable()
    try:
        argument, sent = Thing(), Thing()
        gone = weakref.ref(argument), weakref.ref(sent)
        iterator = fail(argument)
        next(iterator)
        try:
            iterator.send(sent)
        except ValueError as error:
            stored = error
        del argument, sent
        assert [reference() for reference in gone] == [None, None]
        del stored, iterator
    finally:
        gc.enable()


def test_an_error_thrown_into_a_generator_forms_no_cycle() -> None:
    class Error(Exception):
        pass

    @disposing
    def things():
        yield

    gc.disable()
    try:
        iterator = things()
        next(iterator)
        error = Error()
        gone = weakref.ref(error)
        with contextlib.suppress(Error):
            iterator.throw(error)
        del error, iterator
        assert gone() is None
    finally:
        gc.enable()


# Asynchronous generators.


def test_an_async_generator_yields_to_the_consumers_scope_and_suspends_its_own() -> None:
    held = []

    @disposing
    async def things():
        with new_dispose_scope():
            for _ in range(3):
                held.append(Thing())
                await asyncio.sleep(0)
                yield Thing()

    async def main():
        with new_dispose_scope() as scope:
            async for thing in things():
                assert thing in scope
                assert current_dispose_scope() is scope
            assert len(held) == 3
            assert not any(thing.whole for thing in held)

    asyncio.run(main())


def test_an_async_generator_passes_on_sent_values_and_thrown_errors() -> None:
    @disposing
    async def echo():
        got = None
        while True:
            try:
                got = yield got
            except ValueError:
                got = "caught"

    async def main():
        iterator = echo()
        assert await anext(iterator) is None
        assert await iterator.asend("a") == "a"
        assert await iterator.athrow(ValueError()) == "caught"
        await iterator.aclose()

    asyncio.run(main())


def test_aclose_ends_the_body_and_disposes_its_scope() -> None:
    held = []

    @disposing
    async def things():
        held.append(Thing())
        try:
            yield
        finally:
            await asyncio.sleep(0)
            held.append(held[0].whole)

    async def main():
        iterator = things()
        await anext(iterator)
        with new_dispose_scope() as scope:
            await iterator.aclose()
            assert current_dispose_scope() is scope

    asyncio.run(main())
    assert not held[0].whole
    assert held[1] is True


def test_an_async_generator_that_is_left_is_closed_by_the_loop() -> None:
    held = []

    @disposing
    async def things():
        held.append(Thing())
        while True:
            yield Thing()

    async def main():
        with new_dispose_scope() as scope:
            async for thing in things():
                assert thing in scope
                break
            assert current_dispose_scope() is scope

    asyncio.run(main())
    assert not held[0].whole


def test_an_async_generator_may_be_driven_by_several_tasks() -> None:
    @disposing
    async def things():
        while True:
            await asyncio.sleep(0)
            yield Thing()

    async def take(iterator):
        with new_dispose_scope() as scope:
            await anext(iterator)
            thing = await anext(iterator)
            assert thing in scope
            assert current_dispose_scope() is scope

    async def main():
        iterator = things()
        for _ in range(3):
            await asyncio.create_task(take(iterator))
        await iterator.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("call", ["disposing(work)", "disposing(lambda: work())", "disposing(\n    work\n)"])
def test_a_dropped_result_of_disposing_that_nothing_called_warns(call: str) -> None:
    with pytest.warns(RuntimeWarning, match=r"nothing called the result of disposing\(") as found:
        exec(compile(call, "program.py", "exec"), {"disposing": disposing, "work": lambda: None})
    assert [(Path(each.filename).name, each.lineno) for each in found] == [("program.py", 1)]


def test_a_function_that_was_called_or_kept_gives_no_warning() -> None:
    calls: list[int] = []

    def unused() -> None:
        @disposing
        def work() -> None:
            calls.append(1)

    unused()
    disposing(lambda: calls.append(2))()
    kept = disposing(lambda: calls.append(3))
    assert calls == [2]
    del kept
    gc.collect()
