"""What a scope keeps of those that it may own, and for how long."""

import weakref
from collections.abc import Callable

import pytest

from scopes import ScopeDisposedError, new_dispose_scope
from scopes.core import ownership
from tests.things import Channel, Thing


def test_what_came_and_went_in_a_long_scope_leaves_few_entries() -> None:
    with new_dispose_scope() as scope:
        kept = Thing()
        for _ in range(20_000):
            Thing()
        assert len(scope._there()) < 600
        assert scope.disposables_view == (kept,)


def test_entries_of_old_ones_go_too_once_as_many_were_entered_since() -> None:
    with new_dispose_scope() as scope:
        kept = [Thing() for _ in range(5_000)]
        assert len(scope._there()) >= 5_000
        del kept[1:]
        for _ in range(6_000):
            Thing()
        assert len(scope._there()) < 600
        assert scope.disposables_view == tuple(kept)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 271, 272, 273, 2_000])
def test_a_scope_tells_what_it_owns_oldest_first_however_many(count: int) -> None:
    with new_dispose_scope() as scope:
        things = [Thing() for _ in range(count)]
        assert scope.disposables_view == tuple(things)
        assert scope.disposables_count == count
    assert not any(x.whole for x in things)


def test_one_that_left_and_came_back_is_there_once_and_is_the_youngest() -> None:
    with new_dispose_scope() as outer:
        first, second = Thing(), Thing()
        with new_dispose_scope() as inner:
            inner.attach(first)
            inner.move_to_outer(first)
        assert outer.disposables_view == (second, first)


def test_one_that_left_for_good_is_forgotten_while_it_lives() -> None:
    with new_dispose_scope() as scope:
        gone = [scope.detach(Thing()) for _ in range(3_000)]
        for _ in range(5_000):
            Thing()
        assert len(scope._there()) < 600
    assert not any(not x.whole for x in gone)


def test_a_new_one_made_while_a_scope_looks_for_those_that_are_gone_is_entered() -> None:
    made = []

    class Heir:
        def __del__(self) -> None:
            made.append(Thing())

    class Parent(Thing):
        pass

    with new_dispose_scope() as scope:
        for _ in range(400):
            x = Parent()
            x.heir = Heir()
            weakref.finalize(x, lambda: None)
            del x
        assert len(made) == 400
        assert set(map(id, scope.disposables_view)) == set(map(id, made))
    assert not any(x.whole for x in made)


@pytest.mark.parametrize("make", [Thing, Channel])
def test_what_is_given_to_a_scope_that_ends_at_that_moment_ends_with_it(
    make: Callable[[], Thing | Channel],
) -> None:
    x = make()
    scope = new_dispose_scope()
    scope.dispose()
    # As when another thread ends the scope between the last look at it and the gift.
    with ownership.lock:
        given = [ownership.give(x, scope)]
    ownership.end_late(given, scope)
    assert x.closed == 1 if isinstance(x, Channel) else not x.whole
    with pytest.raises(ScopeDisposedError):
        scope.attach(Thing())
