"""Scopes with a limit, and `scope.borrow`."""

from __future__ import annotations

import contextvars
import gc
import io
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tensor
from scopes import (
    ScopeDisposedError,
    ScopeLimitError,
    TensorDisposedError,
    current_dispose_scope,
    disposing,
    new_dispose_scope,
    statistics,
)
from scopes.core.scope import is_watched
from tests.interrupts import interrupted_at

KIB = 1024


def kibs(n: int) -> tensor.Tensor:
    return tensor.ones((n * 256,), dtype=tensor.float32)


def test_creation_beyond_the_limit_raises_and_changes_nothing():
    with new_dispose_scope("request", limit="64 KiB") as scope:
        kept = kibs(40)
        before = statistics.snapshot()
        with pytest.raises(ScopeLimitError):
            kibs(32)
        assert statistics.snapshot() == before
        assert scope.disposables_view == (kept,)
        assert kept.sum().item() == 40 * 256


def test_error_names_scope_figure_and_largest_members():
    with new_dispose_scope("request", limit="64 KiB"):
        small, large = kibs(8), kibs(32)
        with pytest.raises(ScopeLimitError) as caught:
            kibs(48)
        assert len({id(small), id(large)}) == 2
    error = caught.value
    assert "the scope 'request' may own 64 KiB, but would own 88 KiB with a Tensor" in str(error)
    assert (error.scope_name, error.figure, error.limit, error.would_be) == (
        "request",
        "bytes",
        64 * KIB,
        88 * KIB,
    )
    assert "(8192,)" in error.largest[0]
    assert "of 32 KiB" in error.largest[0]
    assert "of 8 KiB" in error.largest[1]
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.largest) == (str(error), error.largest)


def test_limit_of_members_names_them():
    with new_dispose_scope("request", max_members=2) as scope:
        kept = [tensor.ones((1,)) for _ in range(2)]
        with pytest.raises(ScopeLimitError, match="may own 2 members, but would own 3"):
            tensor.ones((1,))
        assert scope.disposables_count == len(kept) == 2


def test_memory_of_disposed_tensors_is_available_again():
    with new_dispose_scope(limit="64 KiB", max_members=2) as scope:
        for _ in range(100):
            kibs(48)
        x = kibs(48)
        x.dispose()
        assert kibs(48).nbytes == 48 * KIB
        assert len(scope) == 0


def test_views_and_clones_count_once():
    with new_dispose_scope(limit="64 KiB"):
        x = kibs(48)
        views = [x.view(-1)[i:] for i in range(5)]
        clones = [x.clone() for _ in range(5)]
        assert len(views) == len(clones) == 5


def test_garbage_in_cycles_is_collected_before_the_limit_refuses():
    class Node:
        pass

    gc.disable()
    try:
        with new_dispose_scope(limit="64 KiB"):
            node = Node()
            node.me, node.x = node, kibs(48)
            del node
            assert kibs(48).nbytes == 48 * KIB
    finally:
        gc.enable()


def test_limit_holds_for_scopes_inside():
    with new_dispose_scope("request", limit="64 KiB") as outer:
        kept = kibs(32)
        with new_dispose_scope("layer") as inner:
            assert inner.limit is None
            with pytest.raises(ScopeLimitError, match="'request'"):
                kibs(48)
        with new_dispose_scope("layer"):
            temporary = kibs(24)
        assert temporary.is_invalid
        assert outer.limit == 64 * KIB
        assert kept in outer


def test_inner_limit_is_tighter_and_ends_with_its_scope():
    with new_dispose_scope("outer", limit="64 KiB"):
        with new_dispose_scope("inner", limit="16 KiB"), pytest.raises(ScopeLimitError, match="'inner'"):
            kibs(32)
        assert kibs(32).nbytes == 32 * KIB


def test_no_limit_holds_after_the_scope():
    with new_dispose_scope(limit="1 KiB"):
        pass
    with new_dispose_scope():
        assert kibs(16).nbytes == 16 * KIB


def test_limit_of_a_scope_that_was_dropped_holds_no_longer():
    scope = new_dispose_scope(limit="1 KiB")
    inner = new_dispose_scope()
    scope.dispose()
    del scope
    with inner:
        assert kibs(16).nbytes == 16 * KIB


def test_an_interrupt_at_any_call_of_the_end_leaves_no_member_and_no_limit():
    event = 1
    is_whole = False
    while not is_whole:
        scope = new_dispose_scope(limit="1 KiB")
        x = tensor.ones((2,))
        is_whole = not interrupted_at(event, scope.dispose)
        assert scope.is_disposed
        assert x.is_invalid
        assert not is_watched()
        assert current_dispose_scope() is None
        event += 1
    assert event > 2


def test_attaching_beyond_the_limit_leaves_owners_as_before():
    with new_dispose_scope() as outer:
        x = kibs(48)
        with new_dispose_scope(limit="32 KiB") as scope:
            with pytest.raises(ScopeLimitError):
                scope.attach(x)
            assert x in outer


def test_moving_beyond_the_limit_leaves_owners_as_before():
    source = new_dispose_scope("source")
    x = kibs(48)
    with new_dispose_scope("target", limit="32 KiB") as target:
        with pytest.raises(ScopeLimitError, match="'target'"):
            source.move_to_other(target, x)
        assert x in source
    source.dispose()
    assert x.is_invalid


def test_moving_inside_the_limited_scope_is_free():
    with new_dispose_scope(limit="64 KiB") as outer:
        with new_dispose_scope() as inner:
            x = inner.move_to_outer(kibs(48))
        assert x in outer


def test_disposing_function_returns_its_result_within_the_limit():
    @disposing
    def work():
        return kibs(20) + kibs(20)[:1]

    with new_dispose_scope(limit="64 KiB") as scope:
        assert work() in scope


def test_attached_resources_count_by_their_nbytes():
    class Buffer(io.BytesIO):
        nbytes = 48 * KIB

    with new_dispose_scope(limit="64 KiB") as scope:
        scope.attach(Buffer())
        with pytest.raises(ScopeLimitError):
            scope.attach(Buffer())


def test_threads_share_one_limit():
    errors = []
    with new_dispose_scope(limit="1 MiB", max_members=50) as scope:
        made = []

        def work():
            try:
                made.extend(kibs(1) for _ in range(40))
            except ScopeLimitError as error:
                errors.append(error)

        threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(scope) == len(made) == 50
    assert errors


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limit": "much"}, "limit: 'much' is not a size"),
        ({"limit": -1}, "limit: -1 is not a size"),
        ({"max_members": 1.5}, "max_members"),
    ],
)
def test_wrong_limit_is_named_and_opens_no_scope(options, text):
    with pytest.raises(ValueError, match=text):
        new_dispose_scope(**options)
    assert current_dispose_scope() is None


def test_scope_has_its_own_limits_as_attributes():
    with new_dispose_scope(limit="1 MiB", max_members=3) as scope:
        assert (scope.limit, scope.max_members) == (2**20, 3)
        with new_dispose_scope() as inner:
            assert (inner.limit, inner.max_members) == (None, None)


# --- borrow -------------------------------------------------------------------------------------------------


def test_a_borrowed_member_returns_to_its_owner_and_no_counter_moves():
    with new_dispose_scope() as outer:
        x = tensor.ones((2,))
        with new_dispose_scope() as inner:
            before = statistics.snapshot()
            with inner.borrow(x) as borrowed:
                assert borrowed is x
                assert x in inner
            assert x in outer
            assert statistics.snapshot() == before


def test_borrowed_tensor_without_owner_has_none_afterwards():
    x = tensor.ones((2,))
    with new_dispose_scope() as scope:
        before = statistics.snapshot()
        with scope.borrow(x):
            assert x.owning_dispose_scope is scope
        assert x.owning_dispose_scope is None
        difference = statistics.snapshot() - before
    assert (difference.attached_to_scope_count, difference.detached_from_scope_count) == (1, 1)
    assert x.sum().item() == 2


def test_borrowed_resource_is_not_closed_by_the_scope():
    file = io.StringIO()
    with new_dispose_scope() as scope:
        with scope.borrow([file]):
            assert file in scope
        assert file not in scope
    assert not file.closed


def test_borrowed_resource_returns_to_its_owner_and_no_counter_changes():
    with new_dispose_scope() as outer:
        file = outer.attach(io.StringIO())
        with new_dispose_scope() as inner:
            before = statistics.snapshot()
            with inner.borrow(file):
                assert file in inner
                assert file not in outer
            assert statistics.snapshot() == before
            assert file in outer
            assert len(inner) == 0
        assert not file.closed
    assert file.closed


def test_borrowed_resource_without_an_owner_counts_as_attached_and_detached():
    file = io.StringIO()
    with new_dispose_scope() as scope:
        before = statistics.snapshot()
        with scope.borrow(file):
            pass
        difference = statistics.snapshot() - before
    assert (difference.attached_to_scope_count, difference.detached_from_scope_count) == (1, 1)
    assert not file.closed


def test_borrowed_resource_goes_to_the_scope_around_an_owner_that_ended():
    with new_dispose_scope() as first:
        second = new_dispose_scope()
        file = second.attach(io.StringIO())
        with new_dispose_scope() as inner, inner.borrow(file):
            second.dispose()
        assert file in first
    assert file.closed


@pytest.mark.parametrize("create", [io.StringIO, lambda: tensor.ones((2,))], ids=["resource", "tensor"])
def test_borrowing_an_object_twice_at_once_counts_once(create: Callable[[], Any]):
    with new_dispose_scope() as scope:
        x = scope.detach(scope.attach(create()))
        before = statistics.snapshot()
        with scope.borrow(x, [x]):
            assert len(scope) == 1
        difference = statistics.snapshot() - before
    assert (difference.attached_to_scope_count, difference.detached_from_scope_count) == (1, 1)


def test_resource_that_is_inside_already_needs_no_room():
    with new_dispose_scope("request", max_members=1) as scope:
        file = scope.attach(io.StringIO())
        assert scope.attach(file) is file
        scope.attach(file, [file])
        with scope.borrow(file):
            pass
        with new_dispose_scope() as inner:
            inner.attach(file)
            with scope.borrow(file):
                assert file in scope
            inner.move_to_outer(file)
        assert scope.disposables_view == (file,)
        with pytest.raises(ScopeLimitError, match="may own 1 member, but would own 2"):
            scope.attach(io.StringIO())
    assert file.closed


def test_new_resource_given_twice_needs_room_for_one():
    file = io.StringIO()
    with new_dispose_scope(max_members=1) as scope:
        scope.attach(file, file)
        assert len(scope) == 1


def test_resource_that_its_scope_closes_meanwhile_is_not_attached():
    class Node:
        pass

    gc.disable()
    try:
        owner = new_dispose_scope()
        file = owner.attach(io.StringIO())
        with new_dispose_scope(max_members=1) as scope:
            node = Node()
            node.me, node.x = node, tensor.ones((2,))
            weakref.finalize(node, owner.dispose)
            del node
            # There is no room at first. The collection of garbage makes room, and ends the owner.
            with pytest.raises(TensorDisposedError, match="ended and closed it while another scope"):
                scope.attach(file)
            assert len(scope) == 0
        assert file.closed
    finally:
        gc.enable()


def test_borrowing_several_returns_all_after_an_error():
    with new_dispose_scope() as outer:
        x, y = tensor.ones((2,)), tensor.zeros((2,))
        with new_dispose_scope() as inner, pytest.raises(KeyError), inner.borrow(x, y) as (a, b):
            assert a is x
            assert b is y
            raise KeyError
        assert x in outer
        assert y in outer


def test_a_tensor_disposed_or_moved_in_the_block_does_not_return():
    with new_dispose_scope() as outer:
        x, y = tensor.ones((2,)), tensor.zeros((2,))
        with new_dispose_scope() as inner, inner.borrow(x, y):
            x.dispose()
            inner.detach(y)
        assert x.is_invalid
        assert y.owning_dispose_scope is None
        assert len(outer) == 0


def test_owner_that_ended_in_the_block_is_replaced_by_the_next_outward():
    with new_dispose_scope() as first:
        second = new_dispose_scope()
        x = tensor.ones((2,))
        with new_dispose_scope() as inner, inner.borrow(x):
            second.dispose()
        assert x in first


def test_a_borrower_that_ends_in_the_block_disposes_its_borrowed_tensors():
    with new_dispose_scope():
        x = tensor.ones((2,))
        with new_dispose_scope() as inner, inner.borrow(x):
            inner.dispose()
        assert x.is_invalid


def test_borrowing_counts_for_the_limit_of_the_borrower():
    with new_dispose_scope("owner", limit="64 KiB") as owner:
        x = kibs(48)
        with new_dispose_scope("large", limit="60 KiB") as large, large.borrow(x):
            with pytest.raises(ScopeLimitError, match="'large'"):
                kibs(32)
        assert x in owner
    x = kibs(48)
    with new_dispose_scope("small", limit="32 KiB") as small, pytest.raises(ScopeLimitError), small.borrow(x):
        pass


def test_borrowing_by_an_ended_scope_or_of_an_empty_tensor_raises():
    with new_dispose_scope() as scope:
        x = tensor.ones((2,))
        x.dispose()
        with pytest.raises(TensorDisposedError), scope.borrow(x):
            pass
    with pytest.raises(ScopeDisposedError):
        scope.borrow(tensor.ones((2,)))


def test_a_loan_is_entered_once_at_a_time():
    x = tensor.ones((2,))
    with new_dispose_scope() as scope:
        loan = scope.borrow(x)
        with loan, pytest.raises(RuntimeError, match="was entered before"), loan:
            pass
        with loan:
            assert x in scope


@pytest.mark.parametrize("options", [{"limit": "36 KiB"}, {"max_members": 7}])
def test_the_error_names_the_five_largest_members_largest_first(options: dict[str, Any]) -> None:
    sizes = [2, 10, 1, 6, 4, 1, 8]
    with new_dispose_scope(**options):
        xs = [tensor.ones((256 * size,)) for size in sizes]
        with pytest.raises(ScopeLimitError) as refused:
            tensor.ones((256 * 5,))
        assert len(xs) == 7
    expected = tuple(f"a Tensor ({256 * size},) float32 of {size} KiB" for size in (10, 8, 6, 4, 2))
    assert refused.value.largest == expected
    assert f"Its largest members: {'; '.join(expected)}. Nothing has changed." in str(refused.value)
