"""The list of a scope's members and its order, while members are added and removed."""

import gc
import weakref
from collections.abc import Callable

import pytest

from scopes import Disposable, DisposeScope, new_dispose_scope
from tests.things import Thing


def test_tensors_that_ended_in_a_long_scope_leave_no_memory_behind() -> None:
    with new_dispose_scope() as scope:
        kept = Thing()
        for _ in range(2_000):
            Thing()
        assert len(scope) == 1
        assert scope.disposables_view == (kept,)


def test_members_may_be_removed_at_any_position() -> None:
    with new_dispose_scope() as scope:
        things = [Thing() for _ in range(9)]
        for place in (8, 0, 4, 2):
            del things[place]
            assert scope.disposables_view == tuple(things)


@pytest.mark.parametrize("count", [1, 2, 17, 2_000])
def test_a_scope_lists_its_members_oldest_first_however_many(count: int) -> None:
    with new_dispose_scope() as scope:
        things = [Thing() for _ in range(count)]
        assert scope.disposables_view == tuple(things)
        assert scope.disposables_count == count
    assert not any(x.whole for x in things)


def test_member_that_returns_to_a_scope_is_listed_once_and_as_the_newest() -> None:
    with new_dispose_scope() as outer:
        first, second = Thing(), Thing()
        with new_dispose_scope() as inner:
            inner.attach(first)
            inner.move_to_outer(first)
        assert outer.disposables_view == (second, first)


def test_a_tensor_made_in_a_finalizer_is_a_member() -> None:
    made = []

    class Heir:
        def __del__(self) -> None:
            made.append(Thing())

    class Parent(Thing):
        pass

    with new_dispose_scope() as scope:
        for _ in range(40):
            x = Parent()
            x.heir = Heir()
            del x
        assert scope.disposables_view == tuple(made)
        assert len(made) == 40
    assert not any(x.whole for x in made)


def test_a_finalizer_that_looks_at_the_scope_does_not_find_the_dying_object() -> None:
    seen = []

    class Nosy:
        def __del__(self) -> None:
            seen.append((scope.disposables_view, scope.nbytes, kept in scope))

    class Parent(Thing):
        __slots__ = ("held",)

    with new_dispose_scope() as scope:
        kept = Thing()
        for _ in range(3):
            x = Parent()
            x.held = Nosy()  # goes while its holder is deallocated, and is in the scope's list
            del x
        assert seen == [((kept,), 4, True)] * 3
        assert len(scope) == 1


@pytest.mark.parametrize("end", [DisposeScope.dispose, DisposeScope.dispose_everything])
def test_finalizer_may_end_the_scope_of_the_object_that_is_freed(
    end: Callable[[DisposeScope], None], window
) -> None:
    class Ending:
        def __del__(self) -> None:
            end(scope)

    class Parent(Thing):
        __slots__ = ("held",)

        __del__ = object.__init__  # nothing: its deallocation is well under way when `held` goes

    with new_dispose_scope() as scope:
        kept, x = Thing(), Parent()
        x.held = Ending()
        del x
        assert not kept.whole
    figures = window()
    assert (figures.created_in_scope_count, figures.disposed_in_scope_count, figures.finalized_count) == (
        2,
        2,
        1,
    )


def test_a_weak_reference_that_walks_the_scope_finds_the_others(window) -> None:
    seen = []
    with new_dispose_scope() as scope:
        kept, x, y = Thing(), Thing(), Thing()
        x.partner, y.partner = y, x
        gone = [weakref.ref(z, lambda _: seen.append(kept in scope.disposables_view)) for z in (x, y)]
        x = y = None
        gc.collect()
        assert seen == [True, True]
        assert [ref() for ref in gone] == [None, None]
        assert scope.disposables_view == (kept,)
    assert window().live_count == 0


def test_one_that_its_finalizer_brings_back_is_a_member_and_counted_once(window) -> None:
    saved = []

    class Reviving(Disposable):
        def __del__(self) -> None:
            saved.append(self)

        def _release(self) -> None:
            pass

    with new_dispose_scope() as scope:
        Reviving()
        assert scope.disposables_view == tuple(saved)
        assert not saved[0].is_invalid
    assert saved[0].is_invalid
    saved.clear()
    figures = window()
    assert (figures.disposed_in_scope_count, figures.finalized_count) == (1, 0)


def test_a_tool_that_holds_all_objects_changes_no_figure(window) -> None:
    with new_dispose_scope() as scope:
        x = Thing()
        everything = [gc.get_objects(), list(scope.disposables_view)]
        assert window().live_count == 1
        x.dispose()
        assert window().live_count == 0
    del everything
    assert window().finalized_count == 0
