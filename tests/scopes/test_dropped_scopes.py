"""A scope that is open, and to which no variable refers, is named by a ResourceWarning."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest

import tensor
from scopes import current_dispose_scope, disposing, new_dispose_scope
from tensor import Tensor


@pytest.fixture
def drop() -> Iterator[Callable[[int], list[Tensor]]]:
    """Return a function that opens a scope for some tensors and forgets it."""

    def drop(count: int) -> list[Tensor]:
        new_dispose_scope("lost")
        return [tensor.ones(2) for _ in range(count)]

    yield drop
    lost = current_dispose_scope()
    assert lost is not None
    lost.dispose()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_next_scope_warns_of_a_dropped_one(drop: Callable[[int], list[Tensor]], count: int) -> None:
    kept = drop(count)
    with (
        pytest.warns(ResourceWarning, match="'lost': open, .* was never ended") as found,
        new_dispose_scope(),
    ):
        pass
    assert [each.filename for each in found] == [__file__]
    assert [x.is_invalid for x in kept] == [False] * count


def test_a_warning_as_error_opens_no_scope(drop: Callable[[int], list[Tensor]]) -> None:
    drop(1)
    with pytest.raises(ResourceWarning):
        new_dispose_scope("inner")
    lost = current_dispose_scope()
    assert lost is not None
    assert lost.name == "lost"


def test_tracemalloc_adds_the_lines_that_opened_it() -> None:
    program = """
from scopes import new_dispose_scope
def lose():
    new_dispose_scope("lost")
lose()
with new_dispose_scope():
    pass
"""
    command = [sys.executable, "-X", "tracemalloc=2", "-W", "always", "-c", program]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert 'File "<string>", lineno 4' in done.stderr
    assert 'File "<string>", lineno 5' in done.stderr


def in_a_block() -> None:
    with new_dispose_scope():
        kept = [tensor.ones(2)]
        with new_dispose_scope():
            assert kept


def in_a_block_whose_name_was_deleted() -> None:
    with new_dispose_scope() as scope:
        del scope
        with new_dispose_scope():
            pass


def in_a_variable() -> None:
    scope = new_dispose_scope()
    with new_dispose_scope():
        pass
    scope.dispose()


def in_an_exit_stack() -> None:
    with contextlib.ExitStack() as blocks:
        blocks.enter_context(new_dispose_scope())
        with new_dispose_scope():
            pass


def in_a_suspended_generator() -> None:
    def generate() -> Iterator[int]:
        with new_dispose_scope():
            yield 1

    generator = generate()
    next(generator)
    with new_dispose_scope():
        pass
    assert list(generator) == []


def in_a_decorated_function() -> None:
    @disposing
    def work() -> Tensor:
        with new_dispose_scope() as scope:
            return scope.move_to_outer(tensor.ones(1))

    work()


def in_tasks() -> None:
    async def work() -> None:
        with new_dispose_scope():
            await asyncio.sleep(0)
            with new_dispose_scope():
                await asyncio.sleep(0)

    async def main() -> None:
        with new_dispose_scope():
            await asyncio.gather(*[work() for _ in range(3)])

    asyncio.run(main())


@pytest.mark.parametrize(
    "use",
    [
        in_a_block,
        in_a_block_whose_name_was_deleted,
        in_a_variable,
        in_an_exit_stack,
        in_a_suspended_generator,
        in_a_decorated_function,
        in_tasks,
    ],
)
def test_a_scope_that_something_holds_gives_no_warning(use: Callable[[], None]) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        use()
    assert found == []


@pytest.mark.parametrize("name", ["step", None])
def test_a_scope_as_a_decorator_is_an_error_and_leaves_no_scope_open(name: str | None) -> None:
    with pytest.raises(TypeError, match="a scope is not a decorator: write @disposing above the function"):

        @new_dispose_scope(name)  # type: ignore[operator]
        def step() -> None:
            pass

    assert current_dispose_scope() is None


def test_a_call_of_a_scope_in_use_is_an_error_and_ends_nothing() -> None:
    with new_dispose_scope() as empty:
        with pytest.raises(TypeError, match="a scope is not a decorator"):
            empty(len)  # type: ignore[operator]
        assert not empty.is_disposed
    scope = new_dispose_scope()
    x = tensor.ones(2)
    with pytest.raises(TypeError, match="a scope is not a decorator"):
        scope(len)  # type: ignore[operator]
    assert not x.is_invalid
    scope.dispose()
