"""Disposables made of others, at the base: those of a library's own."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from scopes import Disposable, TensorDisposedError, new_dispose_scope, statistics
from scopes.lowlevel import Compound


class Part(Disposable):
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        super().__init__()

    def _release(self) -> None:
        if self.fails:
            raise ValueError("this part can't be given back")


class Pair(Compound):
    pass


def test_parts_leave_their_scope_and_end_with_the_whole() -> None:
    with new_dispose_scope() as scope:
        a, b = Part(), Part()
        pair = Pair((a, b))
        assert scope.disposables_view == (pair,)
        assert a.owning_dispose_scope is None
    assert pair.is_invalid
    assert a.is_invalid
    assert b.is_invalid


def test_the_error_of_a_part_names_the_scope_that_ended() -> None:
    with new_dispose_scope("step"):
        part = Part()
        pair = Pair((part,))
    with pytest.raises(TensorDisposedError, match="its dispose scope 'step' ended"):
        part._raise_if_disposed()
    assert pair.is_invalid


def test_all_parts_are_disposed_though_some_raise() -> None:
    a, b, c = Part(), Part(fails=True), Part(fails=True)
    pair = Pair((a, b, c))
    with pytest.raises(ExceptionGroup) as caught:
        pair.dispose()
    assert len(caught.value.exceptions) == 2
    assert a.is_invalid
    assert b.is_invalid
    assert c.is_invalid


def test_a_disposed_part_is_refused_and_the_others_stay_where_they_are() -> None:
    with new_dispose_scope() as scope:
        a, b = Part(), Part()
        b.dispose()
        with pytest.raises(TensorDisposedError):
            Pair((a, b))
        assert a in scope


def test_a_value_that_is_not_disposable_is_refused() -> None:
    with pytest.raises(TypeError, match="a disposable or a tensor, not object: leave it out of the parts"):
        Pair((object(),))


def test_a_held_part_of_a_whole_that_is_gone_becomes_a_member_in_its_place() -> None:
    with new_dispose_scope() as scope:
        first, part = Part(), Part()
        pair = Pair((part, Part()))
        last = Part()
        before = statistics.of(Part).snapshot()
        del pair
        gc.collect()
        assert scope.disposables_view == (first, part, last)
        now = statistics.of(Part).snapshot() - before
        assert (now.disposed_in_scope_count, now.finalized_count, now.attached_to_scope_count) == (1, 1, 0)
    assert part.is_invalid


def test_parts_of_a_whole_without_owner_go_on_without_one() -> None:
    part = Part()
    pair = Pair((part,))
    del pair
    gc.collect()
    assert not part.is_invalid
    assert part.owning_dispose_scope is None


def test_a_part_attached_to_another_scope_stays_there_after_the_whole() -> None:
    part = Part()
    with new_dispose_scope() as outer, new_dispose_scope():
        pair = Pair((part,))
        outer.attach(part)
        del pair
        gc.collect()
        assert part in outer


def test_a_cycle_through_the_whole_is_collected() -> None:
    with new_dispose_scope() as scope:
        pair = Pair((Part(),))
        pair.itself = pair  # type: ignore[attr-defined]
        gone = ref(pair)
        del pair
        gc.collect()
        assert gone() is None
        assert len(scope) == 0


def test_a_compound_of_compounds_ends_as_one() -> None:
    with new_dispose_scope() as scope:
        part = Part()
        inner = Pair((part,))
        outer = Pair((inner,))
        assert scope.disposables_view == (outer,)
        before = statistics.of(Part).snapshot()
    assert inner.is_invalid
    assert part.is_invalid
    assert (statistics.of(Part).snapshot() - before).disposed_in_scope_count == 1


def test_a_disposed_part_is_no_member_after_the_whole() -> None:
    with new_dispose_scope() as scope:
        part, other = Part(), Part()
        pair = Pair((part, other))
        part.dispose()
        del pair
        gc.collect()
        assert scope.disposables_view == (other,)
