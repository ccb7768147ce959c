"""Our tensors and PyTorch's over the same memory, each side's scopes owning their own."""

from __future__ import annotations

import pytest

import tensor
from scopes import TensorDisposedError, new_dispose_scope, statistics

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402


def test_ours_over_theirs_stays_valid_when_theirs_is_disposed() -> None:
    with scopes.torch.owning(), new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            theirs = torch.arange(4.0)
            ours = inner.move_to_outer(tensor.from_dlpack(theirs))
            theirs[0] = 5.0
            assert ours in outer
            assert theirs in inner
        with pytest.raises(TensorDisposedError):
            theirs.sum()
        assert ours.tolist() == [5.0, 1.0, 2.0, 3.0]


def test_theirs_over_ours_stays_valid_when_ours_is_disposed() -> None:
    with scopes.torch.owning(), new_dispose_scope() as outer:
        with new_dispose_scope() as inner:
            ours = tensor.arange(4.0)
            theirs = inner.move_to_outer(torch.from_dlpack(ours))
            assert theirs in outer
            assert ours in inner
        with pytest.raises(TensorDisposedError):
            ours.sum()
        assert theirs.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_each_side_counts_its_own() -> None:
    ours_before = statistics.of(tensor.Tensor).snapshot()
    theirs_before = statistics.of(torch.Tensor).snapshot()
    with scopes.torch.owning(), new_dispose_scope():
        ours = tensor.arange(4.0)
        theirs = torch.from_dlpack(ours)
        again = tensor.from_dlpack(theirs)
    for before, kind, count in ((ours_before, tensor.Tensor, 2), (theirs_before, torch.Tensor, 1)):
        change = statistics.of(kind).snapshot() - before
        assert (change.created_in_scope_count, change.disposed_in_scope_count) == (count, count)
    assert ours.is_invalid
    assert again.is_invalid
    assert theirs.is_invalid
