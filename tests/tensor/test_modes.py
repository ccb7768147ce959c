"""Where ops are recorded: blocks, decorators, generators, threads, tasks."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import tensor
from tensor import autograd
from tests.tensor.graphs import leaf, leaving_nothing


def records() -> bool:
    """Tell by an op whether it is recorded, and hold that ``is_grad_enabled`` says the same."""
    is_recorded = (leaf(1.0) * 2).requires_grad
    assert tensor.is_grad_enabled() == is_recorded
    return is_recorded


@pytest.fixture(autouse=True)
def recording_is_as_it_was() -> Iterator[None]:
    assert records()
    yield
    assert records()
    assert not tensor.is_inference_mode_enabled()


OFF: dict[str, Callable[[], object]] = {
    "no_grad": tensor.no_grad,
    "set_grad_enabled": lambda: tensor.set_grad_enabled(False),
    "inference_mode": tensor.inference_mode,
}
off = pytest.mark.parametrize("make", OFF.values(), ids=OFF)


@pytest.mark.parametrize("enabled", [True, False])
def test_set_grad_enabled_is_the_one_or_the_other(enabled):
    with tensor.set_grad_enabled(not enabled), tensor.set_grad_enabled(enabled):
        assert records() == enabled


def test_inference_mode_is_stronger_than_enable_grad():
    with tensor.inference_mode():
        assert tensor.is_inference_mode_enabled()
        with tensor.enable_grad(), autograd.detect_anomaly():
            assert not records()
            assert tensor.is_inference_mode_enabled()


def test_inference_mode_false_records_inside_another():
    with tensor.inference_mode():
        with tensor.inference_mode(False):
            assert records()
            assert not tensor.is_inference_mode_enabled()
        assert not records()
        assert tensor.is_inference_mode_enabled()


def test_no_grad_is_no_inference_mode():
    with tensor.no_grad():
        assert not tensor.is_inference_mode_enabled()


def test_a_tensor_made_in_inference_mode_may_be_used_where_gradients_are_recorded():
    w = leaf(3.0)
    with tensor.inference_mode():
        features = w * 2
    (features * w).sum().backward()
    assert w.grad.tolist() == [6.0]


def test_nothing_is_recorded_by_backward_in_inference_mode():
    x = leaf(2.0)
    y = x * x * x
    with tensor.inference_mode():
        (dx,) = autograd.grad(y, x, create_graph=True)
    assert dx.tolist() == [12.0]
    assert not dx.requires_grad


def test_leaves_that_are_written_in_inference_mode_keep_their_gradient():
    x = leaf(2.0)
    (x * x).backward()
    with tensor.inference_mode():
        x -= x.grad
    assert (x.tolist(), x.grad.tolist(), x.requires_grad) == ([-2.0], [4.0], True)


@off
def test_an_error_ends_the_mode(make):
    with pytest.raises(KeyError), make():
        assert not records()
        raise KeyError
    assert records()


@off
def test_one_block_may_be_entered_again_inside_itself(make):
    block = make()
    with block:
        with block, tensor.enable_grad(), block:
            assert not records()
        assert not records()
    assert records()
    with block:
        assert not records()


@off
def test_a_decorated_function_keeps_its_name_and_may_call_itself(make):
    @make()
    def down(n: int) -> list[bool]:
        """Count down."""
        return [records()] + (down(n - 1) if n else [])

    assert (down.__name__, down.__doc__) == ("down", "Count down.")
    assert down(3) == [False] * 4


@off
def test_a_decorated_method_gets_its_object(make):
    class Model:
        scale = 3.0

        @make()
        def predict(self, x):
            return x * self.scale

    y = Model().predict(leaf(2.0))
    assert (y.tolist(), y.requires_grad) == ([6.0], False)


@off
def test_an_error_leaves_a_decorated_function_and_its_mode(make):
    @make()
    def fail():
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert records()


@off
def test_a_decorated_generator_has_the_mode_while_it_runs_and_its_consumer_has_not(make):
    @make()
    def batches():
        for _ in range(3):
            yield records()

    assert inspect.isgeneratorfunction(batches)
    assert [(inside, records()) for inside in batches()] == [(False, True)] * 3


def test_a_mode_that_a_decorated_generator_has_open_at_a_yield_is_its_own():
    @tensor.no_grad()
    def generate():
        with tensor.enable_grad():
            yield records()
            yield records()
        yield records()

    steps = generate()
    seen = []
    with tensor.no_grad():
        for inside in steps:
            seen.append(inside)
            assert not records()
    assert seen == [True, True, False]


def test_a_decorated_generator_takes_values_and_errors_and_returns():
    @tensor.no_grad()
    def echo():
        got = yield records()
        while True:
            try:
                got = yield (got, records())
            except KeyError:
                return records()

    steps = echo()
    assert next(steps) is False
    assert steps.send(1) == (1, False)
    assert steps.send(2) == (2, False)
    with pytest.raises(StopIteration) as end:
        steps.throw(KeyError())
    assert end.value.value is False


def test_a_decorated_generator_that_is_closed_runs_its_end_within_the_mode():
    ends = []

    @tensor.no_grad()
    def generate():
        try:
            yield
        finally:
            ends.append(records())

    steps = generate()
    next(steps)
    steps.close()
    assert ends == [False]


def test_an_error_of_a_decorated_generator_makes_no_cycle():
    @tensor.no_grad()
    def generate(x):
        yield x * 2
        raise KeyError

    with leaving_nothing():
        steps = generate(leaf(1.0))
        try:
            for _ in steps:
                steps.throw(ValueError())
        except ValueError:
            pass
        del steps, _


@off
def test_a_decorated_coroutine_has_the_mode_and_other_tasks_have_not(make):
    seen = {}

    async def other() -> None:
        for _ in range(5):
            seen.setdefault("outside", set()).add(records())
            await asyncio.sleep(0)

    @make()
    async def mine() -> None:
        for _ in range(5):
            seen.setdefault("inside", set()).add(records())
            await asyncio.sleep(0)

    async def main() -> None:
        assert inspect.iscoroutinefunction(mine)
        await asyncio.gather(mine(), other(), mine())
        await mine()
        assert records()

    asyncio.run(main())
    assert seen == {"inside": {False}, "outside": {True}}


def test_a_decorated_async_generator_has_the_mode_while_it_runs():
    @tensor.no_grad()
    async def generate() -> AsyncIterator[bool]:
        with tensor.enable_grad():
            await asyncio.sleep(0)
            yield records()
        await asyncio.sleep(0)
        try:
            yield records()
        except KeyError:
            yield records()

    async def main() -> list[tuple[bool, bool]]:
        assert inspect.isasyncgenfunction(generate)
        seen = [(inside, records()) async for inside in generate()]
        steps = generate()
        await steps.asend(None)
        await steps.asend(None)
        seen.append((await steps.athrow(KeyError()), records()))
        await steps.aclose()
        return seen

    assert asyncio.run(main()) == [(True, True), (False, True), (False, True)]


def test_a_task_has_the_mode_in_which_it_was_made_and_keeps_it():
    async def later() -> bool:
        await asyncio.sleep(0)
        return records()

    async def main() -> tuple[bool, bool]:
        with tensor.no_grad():
            task = asyncio.create_task(later())
        return await task, records()

    assert asyncio.run(main()) == (False, True)


def test_tasks_that_share_one_block_do_not_switch_each_other():
    shared = tensor.no_grad()
    seen = []

    async def worker(delay: int) -> None:
        with tensor.enable_grad() if delay % 2 else tensor.no_grad():
            expected = records()
            with shared:
                for _ in range(delay):
                    await asyncio.sleep(0)
                assert not records()
            seen.append(records() == expected)

    async def main() -> None:
        await asyncio.gather(*[worker(delay) for delay in (5, 2, 4, 1, 3)])

    asyncio.run(main())
    assert seen == [True] * 5


def test_threads_that_share_one_block_do_not_switch_each_other():
    shared = tensor.no_grad()
    both_inside, first_is_out = threading.Barrier(2), threading.Event()
    seen = {}

    def first() -> None:
        with tensor.no_grad():
            with shared:
                both_inside.wait()
            seen["first"] = records()
        first_is_out.set()

    def second() -> None:
        with shared:
            both_inside.wait()
            first_is_out.wait()
            seen["second, inside"] = records()
        seen["second"] = records()

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"first": False, "second, inside": False, "second": True}


def test_a_block_that_ends_in_another_context_changes_nothing_there():
    block = tensor.no_grad()
    contextvars.copy_context().run(block.__enter__)
    assert records()
    with tensor.no_grad():
        block.__exit__(None, None, None)
        assert not records()


def test_blocks_of_a_suspended_generator_that_end_late_leave_their_consumers_mode():
    def generate():
        with tensor.no_grad():
            yield

    with tensor.enable_grad():
        steps = generate()
        next(steps)
        assert not records()  # the generator is suspended in its block: so it is for all of Python's own
    assert records()
    steps.close()
    assert records()


def test_backward_in_a_thread_that_records_nothing_keeps_that_setting():
    x = leaf(3.0)
    y = x * x
    with tensor.no_grad():
        (dx,) = autograd.grad(y, x, create_graph=True)
        assert dx.requires_grad
        assert not records()
        y.backward()
        assert not records()
    assert x.grad.tolist() == [6.0]


def test_set_grad_enabled_holds_as_a_statement_until_it_is_set_again():
    def answers() -> list[bool]:
        found = [tensor.is_grad_enabled()]
        tensor.set_grad_enabled(False)
        found.append(tensor.is_grad_enabled())
        with tensor.enable_grad():
            found.append(tensor.is_grad_enabled())
        found.append(tensor.is_grad_enabled())
        tensor.set_grad_enabled(True)
        return [*found, tensor.is_grad_enabled()]

    assert contextvars.copy_context().run(answers) == [True, False, True, False, True]


def test_set_grad_enabled_as_a_block_restores_the_setting():
    with tensor.set_grad_enabled(False):
        assert not tensor.is_grad_enabled()
        with tensor.set_grad_enabled(True):
            assert tensor.is_grad_enabled()
            tensor.set_grad_enabled(False)
            assert not tensor.is_grad_enabled()
        assert not tensor.is_grad_enabled()
    assert tensor.is_grad_enabled()


def test_set_grad_enabled_as_a_decorator_changes_the_function_alone():
    @tensor.set_grad_enabled(False)
    def inside() -> bool:
        return tensor.is_grad_enabled()

    assert tensor.is_grad_enabled()
    assert not inside()
    assert tensor.is_grad_enabled()


def test_set_grad_enabled_records_nothing_under_inference_mode():
    with tensor.inference_mode():
        tensor.set_grad_enabled(True)
        assert not tensor.is_grad_enabled()
        with tensor.set_grad_enabled(True), tensor.inference_mode(False):
            assert tensor.is_grad_enabled()
        assert not tensor.is_grad_enabled()
    assert tensor.is_grad_enabled()


def test_a_thread_has_its_own_set_grad_enabled():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(tensor.set_grad_enabled, False).result()
        assert not pool.submit(tensor.is_grad_enabled).result()
    assert tensor.is_grad_enabled()
