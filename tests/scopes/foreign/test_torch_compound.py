"""Compounds of PyTorch's tensors: several tensors as one disposable."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest

from scopes import TensorDisposedError, new_dispose_scope, statistics
from scopes.lowlevel import Compound, owner_of

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402


class Pair(Compound):
    pass


def test_tensors_leave_their_scope_and_end_with_the_compound() -> None:
    with new_dispose_scope("step") as scope, scopes.torch.owning():
        x, y = torch.ones(2), torch.ones(2)
        pair = Pair((x, y))
        assert scope.disposables_view == (pair,)
        assert owner_of(x) is None
    assert pair.is_invalid
    for tensor in (x, y):
        with pytest.raises(TensorDisposedError, match="its dispose scope 'step' ended"):
            tensor.sum()


def test_tensors_of_a_program_without_owning_may_be_parts() -> None:
    x = torch.ones(2)
    with new_dispose_scope() as scope:
        Pair((x,)).dispose()
        assert len(scope) == 0
    with pytest.raises(TensorDisposedError):
        x.sum()


def test_the_compound_keeps_its_tensors_alive_and_frees_them() -> None:
    with new_dispose_scope() as scope, scopes.torch.owning():
        first = torch.ones(2)
        pair = Pair((first, torch.ones(3)))
        x = ref(first)
        del first
        gc.collect()
        assert x() is not None
        assert scope.nbytes == (2 + 3) * 4
        del pair
        assert x() is None
        assert len(scope) == 0


def test_a_held_tensor_of_a_compound_that_is_gone_ends_with_the_scope() -> None:
    with new_dispose_scope() as scope, scopes.torch.owning():
        x = torch.ones(2)
        pair = Pair((x, torch.ones(3)))
        before = statistics.of(torch.Tensor).snapshot()
        del pair
        assert x in scope
        assert len(scope) == 1
        now = statistics.of(torch.Tensor).snapshot() - before
        assert (now.disposed_in_scope_count, now.finalized_count, now.attached_to_scope_count) == (1, 1, 0)
    with pytest.raises(TensorDisposedError):
        x.sum()


def test_a_disposed_tensor_is_refused_and_the_others_stay_where_they_are() -> None:
    with new_dispose_scope() as scope, scopes.torch.owning():
        x, y = torch.ones(2), torch.ones(2)
        scopes.dispose(y)
        with pytest.raises(TensorDisposedError):
            Pair((x, y))
        assert x in scope


def test_a_cycle_through_the_compound_is_collected() -> None:
    with new_dispose_scope() as scope, scopes.torch.owning():
        x = torch.ones(2)
        pair: Any = Pair((x,))
        x.pair = pair
        gone = ref(x)
        del x, pair
        gc.collect()
        assert gone() is None
        assert len(scope) == 0


def test_a_compound_of_tensors_and_other_disposables_ends_as_one() -> None:
    with new_dispose_scope() as scope, scopes.torch.owning():
        x = torch.ones(2)
        inner = Pair((x,))
        outer = Pair((inner, torch.ones(2)))
        assert scope.disposables_view == (outer,)
    assert inner.is_invalid
    with pytest.raises(TensorDisposedError):
        x.sum()


def test_a_compound_ends_with_its_scope_even_if_an_older_module_keeps_it_and_moves_as_a_whole() -> None:
    module = torch.nn.Linear(2, 2)
    with scopes.torch.owning(), new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            module.ended, module.moved = Pair((torch.ones(2),)), Pair((torch.ones(2),))
            inner.move_to_outer(module.moved)
        assert module.ended.is_invalid
        assert module.moved in outer
        assert not module.moved.is_invalid
